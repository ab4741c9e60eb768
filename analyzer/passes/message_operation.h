// What an operation does to point-to-point messages.
#pragma once

#include "analyzer/passes/operation.h"

namespace ddl {

enum class MessageRole {
  kNone,
  kSend,
  kReceive,
  kExchange,  ///< Sendrecv: sends and receives
  kProbe,     ///< waits for a message and leaves it to be received
  /// takes the message that it finds: for the order of messages it is the receive (Mrecv only fetches the data)
  kMatchedProbe,
  kWait,  ///< returns when requests are complete
  kTest,  ///< completes requests without waiting for them
};

struct MessageOperation {
  MessageRole role = MessageRole::kNone;
  bool posts = false;       ///< returns at once and leaves a request
  bool persistent = false;  ///< makes a request that MPI_Start posts: the call itself moves nothing
  bool polls = false;       ///< looks whether there is a message, without waiting for one
  bool buffered = false;    ///< a send that is complete without its receiver, by definition
};

MessageOperation message_operation(const Operation& operation);

}  // namespace ddl
