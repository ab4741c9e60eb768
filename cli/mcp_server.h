// The Model Context Protocol about runs, over JSON-RPC 2.0: initialize, ping, tools/list, tools/call. Revisions
// 2025-11-25, 2025-06-18 and 2024-11-05 (https://modelcontextprotocol.io/specification). No answer writes a file or
// starts a program.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ddl::cli {

/// Longer messages are refused.
constexpr size_t kMcpMostQuestionBytes = 1 << 20;
/// Longer answers are cut, and say so.
constexpr size_t kMcpMostAnswerBytes = 64 << 10;

class McpServer {
 public:
  /// Answers about the runs in `folder` only.
  explicit McpServer(const std::filesystem::path& folder);
  ~McpServer();
  McpServer(const McpServer&) = delete;
  McpServer& operator=(const McpServer&) = delete;

  /// Takes one message without its newline, and returns the answer likewise. Nothing: notifications have no answer.
  /// Never throws, whatever the message.
  std::optional<std::string> answer(std::string_view message);

 private:
  class Tools;
  std::unique_ptr<Tools> tools_;
};

}  // namespace ddl::cli
