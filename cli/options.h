// Options of one verb: Boost.Program_options with our messages, a hint with the nearest name, and a --help that ends with an example.
#pragma once

#include <boost/program_options.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddl::cli {

struct VerbHelp {
  std::string_view verb;     ///< "record"
  std::string_view usage;    ///< "[options] -- COMMAND [ARGUMENT...]"
  std::string_view text;     ///< what it does, a sentence or two
  std::string_view example;  ///< lines to type
};

class VerbOptions {
 public:
  explicit VerbOptions(const VerbHelp& help);

  /// Where the verb adds its own options.
  boost::program_options::options_description_easy_init add() { return shown_.add_options(); }

  /// At most `most` words without dashes; read them with words().
  void allow_words(size_t most) { most_words_ = most; }

  /// False: --help was asked for and has been printed. Throws ddl::Error (usage).
  bool parse(const std::vector<std::string>& arguments);

  /// Like parse(), but everything from "--", or from the first word that is neither an option nor the value of one, is the job's command.
  bool parse_with_command(const std::vector<std::string>& arguments, std::vector<std::string>& command);

  bool has(const char* name) const { return values_.count(name) != 0; }
  template <class T>
  T get(const char* name) const {
    return values_[name].as<T>();
  }
  template <class T>
  std::optional<T> maybe(const char* name) const {
    return has(name) ? std::optional<T>(get<T>(name)) : std::nullopt;
  }
  const std::vector<std::string>& words() const { return words_; }

 private:
  void print_help() const;
  bool takes_value(const std::string& argument) const;

  VerbHelp help_;
  boost::program_options::options_description shown_;
  boost::program_options::variables_map values_;
  std::vector<std::string> words_;
  size_t most_words_ = 0;
};

/// The name in `names` that `word` was probably meant to be; empty if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

/// "did you mean X?", or `otherwise`.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names, std::string otherwise);

}  // namespace ddl::cli
