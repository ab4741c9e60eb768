// Options of one verb: Boost.Program_options with our messages, a hint with the nearest name, and a --help that ends
// with an example. Only options.cpp includes Boost, whose headers cost every file a second. --help, manual page and
// completion are made from what a verb declares here.
#pragma once

#include <memory>
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

/// One option as --help, the manual page and the shells know it.
struct OptionRow {
  std::string group;          ///< heading in front of it; may be empty
  std::string name;           ///< "output"
  std::string letter;         ///< "o"; empty: none
  std::string argument;       ///< "NAME.ddl"; empty: takes none
  std::string default_value;  ///< empty: none
  std::string text;
  std::vector<std::string> values;  ///< what completion offers; empty: anything
  bool list = false;                ///< several of them, with commas between
  bool closed = false;              ///< takes no other value
};

/// The kind of the words without dashes.
enum class WordKind { kRun, kRunOrTable, kFile, kName, kCommand };

/// All that one command, such as "record" or "model fit", takes.
struct CommandTable {
  std::string verb, usage, text, example;
  std::vector<OptionRow> options;
  size_t most_words = 0;
  WordKind words = WordKind::kRun;
  std::vector<std::string> names;  ///< one of the words (of files: the first) is one of these
};

/// While one lives, a verb's --help gives it its table instead of printing. One at a time, in one thread.
class HelpReader {
 public:
  HelpReader();
  ~HelpReader();
  HelpReader(const HelpReader&) = delete;
  std::vector<CommandTable> tables;
};

/// An option's value: its name in --help, and its default.
template <class T>
struct ValueOfOption {
  std::string name;
  std::optional<T> initial;
};
template <class T>
ValueOfOption<T> takes(std::string name, std::optional<T> initial = {}) {
  return {std::move(name), std::move(initial)};
}

class VerbOptions {
  struct Parsed;

 public:
  explicit VerbOptions(const VerbHelp& help);
  VerbOptions(VerbOptions&& other) noexcept;
  ~VerbOptions();

  /// Declares options in a chain: add()("json", "for programs")("output,o", takes<std::string>("FILE"), "where to"). T
  /// is std::string, std::vector<std::string>, double, int, int64_t or uint64_t.
  class Adder {
   public:
    const Adder& operator()(const char* name, const char* text) const;
    template <class T>
    const Adder& operator()(const char* name, const ValueOfOption<T>& value, const char* text) const;

   private:
    friend VerbOptions;
    explicit Adder(Parsed& parsed) : parsed_(parsed) {}
    Parsed& parsed_;
  };
  /// Declares the verb's own options; --help and the manual show them under the heading `group`, by default "options".
  Adder add(const char* group = nullptr);

  /// At most `most` words without dashes, for words(). `names` serve completion only: the verb itself
  /// refuses other words.
  void allow_words(size_t most, WordKind kind = WordKind::kRun, std::vector<std::string> names = {});

  /// --help shows these options in one row with `text`, in place of the first; the manual shows each with its own text.
  void one_row(std::vector<std::string> options, std::string text);

  /// parse() refuses any other value of `option`.
  void one_of(const char* option, std::vector<std::string> values);
  /// Completion offers these values of `option`; `list`: several, separated by commas. The verb may take others.
  void suggest(const char* option, std::vector<std::string> values, bool list = false);

  /// False: --help was printed. Throws ddl::Error (usage).
  bool parse(const std::vector<std::string>& arguments);

  /// Like parse(), but the job's command begins behind "--", or at the first word that is neither an option nor
  /// an option's value.
  bool parse_with_command(const std::vector<std::string>& arguments, std::vector<std::string>& command);

  bool has(const char* name) const;
  template <class T>
  T get(const char* name) const;
  template <class T>
  std::optional<T> maybe(const char* name) const {
    return has(name) ? std::optional<T>(get<T>(name)) : std::nullopt;
  }
  const std::vector<std::string>& words() const { return words_; }

 private:
  void print_help() const;
  CommandTable table() const;
  void check_values() const;
  bool parse(const std::vector<std::string>& arguments, std::vector<std::string>* command);

  VerbHelp help_;
  std::unique_ptr<Parsed> parsed_;  ///< Boost's options, and what was typed
  std::vector<std::string> words_, word_names_;
  size_t most_words_ = 0;
  WordKind word_kind_ = WordKind::kRun;
};

/// Seconds of "90", "90s", "10m" or "1h". Throws ddl::Error (usage).
double parse_duration(const std::string& text);

/// 0.05 of "5%" or "0.05". Throws ddl::Error (usage), naming the option.
double parse_share(std::string_view option, const std::string& text);

/// The name in `names` nearest to `word`; empty if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

/// "did you mean X?", or `otherwise`.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names, std::string otherwise);

}  // namespace ddl::cli
