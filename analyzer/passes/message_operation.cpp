#include "analyzer/passes/message_operation.h"

namespace ddl {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

MessageRole role_of(const Operation& operation) {
  switch (operation.op_class) {
    case OpClass::kSend:
      return MessageRole::kSend;
    case OpClass::kReceive:
      return contains(operation.name, "mrecv") || contains(operation.name, "Mrecv") ? MessageRole::kNone
                                                                                    : MessageRole::kReceive;
    case OpClass::kSendReceive:
      return MessageRole::kExchange;
    case OpClass::kProbe:
      return contains(operation.name, "mprobe") || contains(operation.name, "Mprobe") ? MessageRole::kMatchedProbe
                                                                                      : MessageRole::kProbe;
    case OpClass::kCompletion:
      return contains(operation.name, "Test") ? MessageRole::kTest : MessageRole::kWait;
    default:
      return MessageRole::kNone;
  }
}

}  // namespace

MessageOperation message_operation(const Operation& operation) {
  MessageOperation result;
  result.role = role_of(operation);
  result.persistent = contains(operation.name, "_init");
  result.posts = operation.nonblocking && !result.persistent;
  result.polls = operation.op_class == OpClass::kProbe && operation.name.starts_with("MPI_I");
  result.buffered = contains(operation.name, "Bsend") || contains(operation.name, "bsend");
  return result;
}

}  // namespace ddl
