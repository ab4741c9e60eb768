// What must not be in a file that people pass on: values of arguments and variables whose names say that they are secret.
// Both sides use it: `ddl record` for job.json, the library for the facts in the spool. libc only.
#pragma once

#include <stddef.h>
#include <string.h>

#include <initializer_list>

namespace ddl {

inline bool same_letters(const char* text, size_t length, const char* capitals) {
  if (strlen(capitals) != length) return false;
  for (size_t i = 0; i < length; ++i) {
    if ((text[i] >= 'a' && text[i] <= 'z' ? text[i] - 'a' + 'A' : text[i]) != capitals[i]) return false;
  }
  return true;
}

/// Of variables any part of the name counts: WANDB_APIKEY, GITHUB_TOKEN.
inline bool is_secret_variable(const char* name, size_t length) {
  for (const char* part : {"TOKEN", "KEY", "PASSWORD", "PASSWD", "SECRET", "JWT", "CREDENTIAL", "COOKIE", "AUTH"}) {
    for (size_t at = 0; at + strlen(part) <= length; ++at) {
      if (same_letters(name + at, strlen(part), part)) return true;
    }
  }
  return false;
}

/// Of arguments whole words do: --max-tokens is no secret, --hub-token is.
inline bool is_secret_argument(const char* name, size_t length) {
  for (size_t at = 0; at < length;) {
    size_t end = at;
    while (end < length && name[end] != '-' && name[end] != '_') ++end;
    for (const char* word : {"TOKEN", "KEY", "APIKEY", "PASSWORD", "PASSWD", "SECRET", "JWT", "CREDENTIALS"}) {
      if (same_letters(name + at, end - at, word)) return true;
    }
    at = end + 1;
  }
  return false;
}

constexpr const char* kSecretShownAs = "***";

/// Goes through the arguments of a command in their order.
class SecretArguments {
 public:
  /// How many bytes of the next argument may be told; less than `length`: kSecretShownAs stands for the rest.
  size_t told(const char* argument, size_t length) {
    const void* equals = memchr(argument, '=', length);
    const size_t name = equals ? static_cast<size_t>(static_cast<const char*>(equals) - argument) : length;
    const bool value_of_last = value_is_secret_ && !(length > 0 && argument[0] == '-');
    const bool secret = is_secret_argument(argument, name);
    value_is_secret_ = secret && !equals && length > 2 && argument[0] == '-' && argument[1] == '-';
    if (value_of_last) return 0;
    return secret && equals && name + 1 < length ? name + 1 : length;
  }

 private:
  bool value_is_secret_ = false;
};

}  // namespace ddl
