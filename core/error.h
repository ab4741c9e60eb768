// The one family of exceptions of the tools. Never used in injected code.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace ddl {

/// Exit codes of every program (see README.md): what a script may rely on.
enum class ExitCode { kGood = 0, kOurs = 1, kUsage = 2, kDataMissing = 3, kGate = 4, kCannotLaunch = 125 };

/// `what()` says what went wrong in one line without a full stop; `hint()` what to try, may be empty.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::string hint = {}, ExitCode code = ExitCode::kOurs)
      : std::runtime_error(message), hint_(std::move(hint)), code_(code) {}
  const std::string& hint() const { return hint_; }
  ExitCode code() const { return code_; }

 private:
  std::string hint_;
  ExitCode code_;
};

/// For a file of ours: the disk is full, the place is read-only or somebody else's. What was to be written there
/// may be made elsewhere.
class CannotWrite : public Error {
 public:
  using Error::Error;
};

}  // namespace ddl
