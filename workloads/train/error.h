#pragma once

#include <stdexcept>
#include <string>

namespace ddl::train {

/** What went wrong, in a sentence for the user. `main` prints it once for the whole job and exits with
 * `exit_code()`. */
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, int exit_code = 1) : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/** The command line is wrong. */
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(message, 2) {}
};

/** A file is absent, malformed or cannot be written. */
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(message, 1) {}
};

}  // namespace ddl::train
