// Masks secrets in files that people pass on: passwords, keys and tokens in arguments, values of variables and
// texts. One list of words and one splitter for `ddl record` (job.json), the library (facts of the spool), exports
// and ddl tune's files.
//
// Masked: values behind a telling name (--hub-token X, db.password=X, "apiKey": "X", Authorization: Bearer
// X), the password of a URL, and tokens of known shape. docs/how-to/share.md says what no list catches.
// libc only; no allocation.
#pragma once

#include <stddef.h>
#include <string.h>

#include <initializer_list>

namespace ddl {

constexpr const char* kSecretShownAs = "***";

namespace secrets {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
inline bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
inline bool is_alnum(char c) { return is_digit(c) || is_upper(c) || is_lower(c); }
inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
inline bool is_quote(char c) { return c == '"' || c == '\'' || c == '`'; }
inline bool is_of_name(char c) { return is_alnum(c) || c == '_' || c == '-' || c == '.' || c == '[' || c == ']'; }
inline char upper(char c) { return is_lower(c) ? static_cast<char>(c - 'a' + 'A') : c; }

inline bool same_letters(const char* text, size_t length, const char* capitals) {
  for (size_t i = 0; i < length; ++i)
    if (capitals[i] == 0 || upper(text[i]) != capitals[i]) return false;
  return capitals[length] == 0;
}

inline bool has_letters(const char* text, size_t length, const char* capitals) {
  const size_t wanted = strlen(capitals);
  for (size_t at = 0; at + wanted <= length; ++at)
    if (same_letters(text + at, wanted, capitals)) return true;
  return false;
}

/// The word of a name that begins at `at`, or behind separators: HUB_TOKEN, hub-token, hub.token, hubToken.
/// Empty: none is left.
inline size_t next_word(const char* name, size_t length, size_t& at) {
  while (at < length && !is_alnum(name[at])) ++at;
  size_t end = at;
  while (end < length && is_alnum(name[end]) && !(end > at && is_upper(name[end]) && is_lower(name[end - 1]))) ++end;
  return end;
}

}  // namespace secrets

/// Whether the name of an argument, variable or key marks its value as secret.
inline bool is_secret_name(const char* name, size_t length) {
  using namespace secrets;
  bool told = false, may_be = false, harmless = false;
  for (size_t at = 0, end = 0; (end = next_word(name, length, at)) > at; at = end) {
    const char* word = name + at;
    const size_t letters = end - at;
    for (const char* part : {"PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "CREDENTIAL", "APIKEY", "ACCESSKEY",
                             "PRIVATEKEY", "AUTHTOKEN", "ACCESSTOKEN", "OAUTH", "AUTHORIZATION"})
      told |= has_letters(word, letters, part);
    for (const char* whole : {"JWT", "PWD", "COOKIE", "COOKIES", "BEARER", "SIGNATURE", "PASSCODE", "PASSWORT", "PSWD"})
      told |= same_letters(word, letters, whole);
    // Words of machine learning, too: --eos-token, --key-size, --pass-through.
    for (const char* whole :
         {"TOKEN", "KEY", "PASS", "AUTH", "SIG", "SAS", "PIN", "CREDS", "CRED", "SESSIONID", "DBPASS", "USERPASS"})
      may_be |= same_letters(word, letters, whole);
    may_be |= letters > 5 && same_letters(word + letters - 5, 5, "TOKEN");
    for (const char* whole :
         {"EOS",    "BOS",    "PAD",    "UNK",    "MASK",    "SEP",    "CLS",     "PER",     "MAX",
          "MIN",    "NUM",    "SIZE",   "DIM",    "LEN",     "MODE",   "TYPE",    "LENGTH",  "LIMIT",
          "COUNT",  "METHOD", "BITS",   "HEADS",  "SORT",    "PUBLIC", "FILE",    "PATH",    "DIR",
          "FRAMES", "METRIC", "BUCKET", "MEMORY", "THROUGH", "ID",     "FORWARD", "BACKWARD"})
      harmless |= same_letters(word, letters, whole);
  }
  return told || (may_be && !harmless);
}

namespace secrets {

/// Length of a token of known shape that begins at `text`; 0: none.
inline size_t token_shape(const char* text, size_t length) {
  struct Shape {
    const char* begin;
    size_t least;  // characters behind that
  };
  static constexpr Shape kShapes[] = {
      {"AKIA", 16},    {"ASIA", 16},           {"ghp_", 20},   {"gho_", 20},  {"ghu_", 20},    {"ghs_", 20},
      {"ghr_", 20},    {"github_pat_", 20},    {"glpat-", 16}, {"sk-", 16},   {"sk_", 16},     {"rk_", 16},
      {"hf_", 16},     {"xoxa-", 10},          {"xoxb-", 10},  {"xoxp-", 10}, {"xoxr-", 10},   {"xoxs-", 10},
      {"AIza", 30},    {"ya29.", 20},          {"npm_", 20},   {"pypi-", 20}, {"dop_v1_", 20}, {"nvapi-", 20},
      {"dckr_", 20},   {"wandb_v1_", 20},      {"shpat_", 20}, {"SG.", 30},   {"eyJ", 17},     {"glsa_", 20},
      {"secret_", 20}, {"AGE-SECRET-KEY-", 20}};
  for (const Shape& shape : kShapes) {
    const size_t begin = strlen(shape.begin);
    if (length < begin + shape.least || memcmp(text, shape.begin, begin) != 0) continue;
    size_t end = begin;
    bool digit = false;
    while (end < length &&
           (is_alnum(text[end]) || text[end] == '_' || text[end] == '-' || text[end] == '.' || text[end] == '~')) {
      digit |= is_digit(text[end]) || is_upper(text[end]);
      ++end;
    }
    if (end - begin >= shape.least && digit) return end;  // sk-learn-ordinary-words has none
  }
  constexpr char kPem[] = "-----BEGIN ";
  if (length > sizeof kPem && memcmp(text, kPem, sizeof kPem - 1) == 0 &&
      has_letters(text, length < 64 ? length : 64, "PRIVATE KEY"))
    return length;
  return 0;
}

/// `at` is behind the "://" of a URL. Begin and end of its password, or of a secret user; equal: none.
inline void find_url_password(const char* text, size_t length, size_t at, size_t& begin, size_t& end) {
  const auto ends = [](char c) { return is_blank(c) || is_quote(c) || c == '<' || c == '>'; };
  size_t slash = at, stop = at, colon = 0, sign = 0, late_sign = 0;
  while (slash < length && text[slash] != '/' && text[slash] != '?' && text[slash] != '#' && !ends(text[slash])) {
    if (text[slash] == ':' && colon == 0) colon = slash;
    if (text[slash] == '@') sign = slash;
    ++slash;
  }
  for (stop = slash; stop < length && !ends(text[stop]); ++stop)
    if (text[stop] == '@') late_sign = stop;
  begin = end = at;
  if (sign != 0) {
    const size_t user_end = colon != 0 && colon < sign ? colon : sign;
    if (user_end == colon) {
      begin = colon + 1;
      end = sign;
    } else if (token_shape(text + at, sign - at) != 0 || sign - at >= 20) {  // https://TOKEN@github.com
      end = sign;
    }
  } else if (colon != 0 && late_sign != 0 && !(colon + 1 < slash && is_digit(text[slash - 1]))) {
    // a password with a slash in it
    begin = colon + 1;
    end = late_sign;
  }
}

/// `at` is behind '=', ':' or a blank. Begin and end of the value.
inline void find_value(const char* text, size_t length, size_t at, bool to_the_end, size_t& begin, size_t& end) {
  while (at < length && (is_blank(text[at]) || text[at] == '\\' || text[at] == '=' || text[at] == '>')) ++at;
  begin = at;
  if (at < length && is_quote(text[at])) {
    const char quote = text[at];
    const bool escaped = at > 0 && text[at - 1] == '\\';
    for (end = ++begin; end < length; ++end) {
      const bool behind = text[end - 1] == '\\' && end > begin;
      if (text[end] == quote && behind == escaped) break;
    }
    if (escaped && end < length) --end;
    if (to_the_end) end = length;
    return;
  }
  if (to_the_end || (at < length && (text[at] == '{' || text[at] == '['))) {
    end = length;
    return;
  }
  for (end = begin; end < length; ++end) {
    const char c = text[end];
    if (is_blank(c) || is_quote(c) || c == '&' || c == ';' || c == ',' || c == '}' || c == ')' || c == ']' || c == '#')
      break;
  }
}

}  // namespace secrets

/// Hands `text` to put(const char* piece, size_t length) piece by piece, kSecretShownAs in place of each secret in it.
template <class Put>
void mask_secrets(const char* text, size_t length, const Put& put) {
  using namespace secrets;
  size_t told = 0;  // up to here
  const auto mask = [&](size_t begin, size_t end) {
    if (end <= begin) return;
    if (begin > told) put(text + told, begin - told);
    put(kSecretShownAs, strlen(kSecretShownAs));
    told = end;
  };
  for (size_t at = 0; at < length;) {
    const char before = at == 0 ? ' ' : text[at - 1];
    if (!is_alnum(before)) {
      if (const size_t shape = token_shape(text + at, length - at)) {
        mask(at, at + shape);
        at += shape;
        continue;
      }
    }
    if (text[at] == ':' && length - at > 3 && text[at + 1] == '/' && text[at + 2] == '/') {
      size_t begin = 0, end = 0;
      at += 3;
      find_url_password(text, length, at, begin, end);
      mask(begin, end);
      if (end > begin) at = end;
      while (at < length && (is_of_name(text[at]) || text[at] == ':' || text[at] == '@' || text[at] == '%')) ++at;
      continue;
    }
    if (!is_of_name(text[at]) || is_of_name(before)) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < length && is_of_name(text[end])) ++end;
    size_t sign = end;
    while (sign < length && (is_quote(text[sign]) || text[sign] == '\\' || text[sign] == ']')) ++sign;
    while (sign < length && (text[sign] == ' ' || text[sign] == '\t')) ++sign;
    const bool equals = sign < length && text[sign] == '=' && !(sign + 1 < length && text[sign + 1] == '=');
    const bool colon =
        sign < length && text[sign] == ':' && !(sign + 2 < length && text[sign + 1] == '/' && text[sign + 2] == '/');
    const bool option = text[at] == '-' && end < length && is_blank(text[end]) && sign < length && text[sign] != '-';
    size_t name = at;
    if (colon) {  // token.example.org:8080 is not a name of a token
      for (size_t i = at; i < end; ++i)
        if (text[i] == '.') name = i + 1;
    }
    const bool bearer = end < length && text[end] == ' ' && sign < length && is_alnum(text[sign]) &&
                        same_letters(text + at, end - at, "BEARER");
    if ((equals || colon || option || bearer) && is_secret_name(text + name, end - name)) {
      // All of --password=a b;c is the password, and all of a header's line.
      const bool first = at == 0 || (at <= 3 && text[0] == '+');
      const bool header = colon && has_letters(text + at, end - at, "AUTHORIZATION");
      size_t begin = 0, stop = 0;
      find_value(text, length, equals || colon ? sign + 1 : sign,
                 (first && equals) || (first && colon) || (header && !is_quote(text[end])), begin, stop);
      if (header && is_quote(before)) {  // -H 'Authorization: Bearer X' in a line for a shell
        for (size_t i = begin; i < stop; ++i)
          if (text[i] == before) stop = i;
      }
      mask(begin, stop);
      at = stop > end ? stop : end;
      continue;
    }
    ++at;
  }
  if (length > told) put(text + told, length - told);
}

/// Goes through the arguments of a command in order, for secrets in the argument behind their name.
class SecretArguments {
 public:
  /// As mask_secrets(), of the next argument.
  template <class Put>
  void tell(const char* argument, size_t length, const Put& put) {
    using namespace secrets;
    const bool dashed = length > 0 && argument[0] == '-';
    if (next_ == Next::kSecret && length > 0 && !dashed) {
      bool scheme = false;  // Authorization: Bearer X, in three arguments
      for (const char* word : {"BEARER", "BASIC", "DIGEST", "TOKEN"}) scheme |= same_letters(argument, length, word);
      if (!scheme) next_ = Next::kPlain;
      return put(scheme ? argument : kSecretShownAs, scheme ? length : strlen(kSecretShownAs));
    }
    const bool user = next_ == Next::kUser;
    next_ = Next::kPlain;
    // of curl; 1000:1000 is a user and a group
    if (const void* found = user ? memchr(argument, ':', length) : nullptr) {
      const size_t password = static_cast<size_t>(static_cast<const char*>(found) - argument) + 1;
      bool number = true;
      for (size_t i = password; i < length; ++i) number &= is_digit(argument[i]);
      if (!number) {
        put(argument, password);
        return put(kSecretShownAs, strlen(kSecretShownAs));
      }
    }
    size_t name = 0;
    while (name < length && (is_of_name(argument[name]) || argument[name] == '+')) ++name;
    const bool whole = name == length || (name + 1 == length && argument[name] == ':');
    const bool names = (dashed && length > 2) || (length > 0 && argument[length - 1] == ':');
    if (whole && names && is_secret_name(argument, name)) next_ = Next::kSecret;
    for (const char* option : {"-u", "--user", "--proxy-user"})
      if (length == strlen(option) && memcmp(argument, option, length) == 0) next_ = Next::kUser;
    mask_secrets(argument, length, put);
  }

 private:
  enum class Next { kPlain, kSecret, kUser };
  Next next_ = Next::kPlain;
};

}  // namespace ddl
