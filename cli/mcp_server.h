// The Model Context Protocol for programs that ask about runs, over JSON-RPC 2.0: initialize, ping, tools/list, tools/call. Revisions 2025-11-25,
// 2025-06-18 and 2024-11-05 (https://modelcontextprotocol.io/specification). Nothing that it answers writes a file or starts a program.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ddl::cli {

/// A longer message is refused: no question is that long.
constexpr size_t kMcpMostQuestionBytes = 1 << 20;
/// The text of an answer ends there, and says so.
constexpr size_t kMcpMostAnswerBytes = 64 << 10;

class McpServer {
 public:
  /// Answers about the runs in `folder`, and in no other.
  explicit McpServer(const std::filesystem::path& folder);
  ~McpServer();
  McpServer(const McpServer&) = delete;
  McpServer& operator=(const McpServer&) = delete;

  /// One message, without its newline; the answer likewise. Nothing: notifications are not answered. Never throws for what a message holds.
  std::optional<std::string> answer(std::string_view message);

 private:
  class Tools;
  std::unique_ptr<Tools> tools_;
};

}  // namespace ddl::cli
