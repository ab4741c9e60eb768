#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <sstream>

#include "cli/terminal.h"
#include "core/error.h"
#include "core/number.h"

namespace po = boost::program_options;

namespace ddl::cli {
namespace {

// No guessing: an abbreviation that works today is ambiguous after the next option.
constexpr int kStyle = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

HelpReader* help_reader = nullptr;

constexpr size_t kHelpWidth = 100, kWidestNames = 30;

/// Boost's "NAME (=value)", and its 0.10000000000000001.
void split_parameter(const std::string& text, OptionRow& row) {
  const size_t bracket = text.find(" (=");
  row.argument = text.substr(0, bracket);
  if (bracket == std::string::npos) return;
  row.default_value = text.substr(bracket + 3, text.size() - bracket - 4);
  if (const auto number = number_in<double>(row.default_value);
      number && row.default_value.find('.') != std::string::npos)
    row.default_value = fmt::format("{:g}", *number);
}

/// Fills lines of kHelpWidth, each but the first behind `indent` spaces; the first one has `used` characters already.
std::string wrapped(std::string_view text, size_t indent, size_t used) {
  std::string out;
  size_t column = used;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const bool first = column == used && out.empty();
    if (!first && column + 1 + word.size() > kHelpWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ', ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

/// Paragraphs in lines of kHelpWidth; lines that begin with two spaces stay as they are.
std::string reflowed(std::string_view text) {
  std::string out, paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) out += wrapped(paragraph, 0, 0) + "\n";
    paragraph.clear();
  };
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && !line.starts_with("  ")) {
      paragraph += line + " ";
      continue;
    }
    end_paragraph();
    out += line + "\n";
  }
  end_paragraph();
  return out;
}

}  // namespace

HelpReader::HelpReader() { help_reader = this; }
HelpReader::~HelpReader() { help_reader = nullptr; }

double parse_share(std::string_view option, const std::string& text) {
  const std::string digits = text.ends_with('%') ? text.substr(0, text.size() - 1) : text;
  const auto value = number_in<double>(digits);
  if (!(value >= 0) || !std::isfinite(*value))
    throw Error(fmt::format("--{}: invalid share '{}'", option, text), "such as 5% or 0.05", ExitCode::kUsage);
  if (text.ends_with('%')) return *value / 100;
  if (*value >= 1)  // as a rule 5 is meant to be 5 %
    throw Error(fmt::format("--{}: '{}' is {:g} %", option, text, 100 * *value),
                fmt::format("write {0}% or {1:g}%", text, 100 * *value), ExitCode::kUsage);
  return *value;
}

double parse_duration(const std::string& text) {
  std::string_view unit = text;
  const auto value = take_number<double>(unit);
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (factor == 0 || !(value > 0) || value > 1e6)
    throw Error(fmt::format("invalid duration '{}'", text), "such as 90s, 10m or 1h", ExitCode::kUsage);
  return *value * factor;
}

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  std::string best;
  size_t best_distance = 3;  // two slips are a typing error, three another word
  for (const std::string& name : names) {
    const size_t distance = word.size() >= 2 && name.starts_with(word) ? 0 : edit_distance(word, name);
    if (distance < best_distance && distance < name.size()) best = name, best_distance = distance;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names, std::string otherwise) {
  const std::string name = nearest(word, names);
  return name.empty() ? std::move(otherwise) : fmt::format("did you mean {}?", name);
}

struct VerbOptions::Parsed {
  struct Known {
    std::vector<std::string> values;
    bool list = false, closed = false;
  };
  po::options_description shown{"options", 100, 60};
  po::variables_map values;
  std::map<std::string, Known> known;
  std::vector<std::pair<std::vector<std::string>, std::string>> rows;  ///< one_row()
  std::map<size_t, std::string> groups;                                ///< headings, by the number of the option behind
  std::vector<po::option> typed;

  /// Reads the option at `at`, with its value, and goes on behind it. One at a time: Boost moves all that is left for
  /// each that it reads.
  void take_option(const std::vector<std::string>& arguments, size_t& at);
};

VerbOptions::VerbOptions(const VerbHelp& help) : help_(help), parsed_(std::make_unique<Parsed>()) {
  add()("help,h", "show this text");
}
VerbOptions::VerbOptions(VerbOptions&& other) noexcept = default;
VerbOptions::~VerbOptions() = default;

VerbOptions::Adder VerbOptions::add(const char* group) {
  if (group != nullptr) parsed_->groups.emplace(parsed_->shown.options().size(), group);
  return Adder(*parsed_);
}

const VerbOptions::Adder& VerbOptions::Adder::operator()(const char* name, const char* text) const {
  parsed_.shown.add_options()(name, text);
  return *this;
}

template <class T>
const VerbOptions::Adder& VerbOptions::Adder::operator()(const char* name, const ValueOfOption<T>& value,
                                                         const char* text) const {
  po::typed_value<T>* typed = po::value<T>()->value_name(value.name);
  if constexpr (requires(std::ostream & out, T shown) { out << shown; })
    if (value.initial) typed->default_value(*value.initial);
  parsed_.shown.add_options()(name, typed, text);
  return *this;
}

bool VerbOptions::has(const char* name) const { return parsed_->values.count(name) != 0; }

template <class T>
T VerbOptions::get(const char* name) const {
  return parsed_->values[name].as<T>();
}

#define DDL_VALUE(T)                                                                                                 \
  template const VerbOptions::Adder& VerbOptions::Adder::operator()(const char* name, const ValueOfOption<T>& value, \
                                                                    const char* text) const;                         \
  template T VerbOptions::get<T>(const char* name) const;
DDL_VALUE(std::string)
DDL_VALUE(std::vector<std::string>)
DDL_VALUE(double)
DDL_VALUE(int)
DDL_VALUE(int64_t)
DDL_VALUE(uint64_t)
#undef DDL_VALUE

void VerbOptions::allow_words(size_t most, WordKind kind, std::vector<std::string> names) {
  most_words_ = most;
  word_kind_ = kind;
  word_names_ = std::move(names);
}

void VerbOptions::one_row(std::vector<std::string> options, std::string text) {
  parsed_->rows.emplace_back(std::move(options), std::move(text));
}

void VerbOptions::one_of(const char* option, std::vector<std::string> values) {
  parsed_->known[option] = {.values = std::move(values), .closed = true};
}

void VerbOptions::suggest(const char* option, std::vector<std::string> values, bool list) {
  parsed_->known[option] = {.values = std::move(values), .list = list};
}

CommandTable VerbOptions::table() const {
  CommandTable table;
  table.verb = help_.verb;
  table.usage = help_.usage;
  table.text = help_.text;
  table.example = help_.example;
  table.most_words = most_words_;
  table.words = word_kind_;
  table.names = word_names_;
  for (const auto& option : parsed_->shown.options()) {
    OptionRow row;
    if (const auto group = parsed_->groups.find(table.options.size()); group != parsed_->groups.end())
      row.group = group->second;
    row.name = option->long_name();
    row.text = option->description();
    const std::string shortest = option->canonical_display_name(po::command_line_style::allow_dash_for_short);
    if (shortest.size() == 2 && shortest[0] == '-') row.letter = shortest.substr(1);
    if (option->semantic()->max_tokens() > 0) split_parameter(option->format_parameter(), row);
    if (const auto known = parsed_->known.find(row.name); known != parsed_->known.end()) {
      row.values = known->second.values;
      row.list = known->second.list;
      row.closed = known->second.closed;
    }
    table.options.push_back(std::move(row));
  }
  return table;
}

void VerbOptions::check_values() const {
  for (const auto& [option, known] : parsed_->known) {
    if (!known.closed || !has(option.c_str())) continue;
    const auto value = get<std::string>(option.c_str());
    if (std::find(known.values.begin(), known.values.end(), value) != known.values.end()) continue;
    constexpr size_t kMostShown = 8;
    throw Error(
        fmt::format("--{}: unknown '{}'", option, value),
        did_you_mean(value, known.values,
                     known.values.size() <= kMostShown ? fmt::format("one of: {}", fmt::join(known.values, ", "))
                                                       : fmt::format("see: ddl {} --help", help_.verb)),
        ExitCode::kUsage);
  }
}

void VerbOptions::print_help() const {
  if (help_reader != nullptr) {
    help_reader->tables.push_back(table());
    return;
  }
  const CommandTable table = this->table();
  const auto names_of = [](const OptionRow& option) {
    return (option.letter.empty() ? "" : "-" + option.letter + ", ") + "--" + option.name +
           (option.argument.empty() ? "" : " " + option.argument);
  };
  struct Row {
    std::string names, text, group;
  };
  std::vector<Row> rows;
  std::map<std::string, size_t> row_of_first;
  for (const OptionRow& option : table.options) {
    const auto shared = std::find_if(parsed_->rows.begin(), parsed_->rows.end(), [&](const auto& row) {
      return std::find(row.first.begin(), row.first.end(), option.name) != row.first.end();
    });
    if (shared == parsed_->rows.end()) {
      rows.push_back(
          {names_of(option),
           option.text + (option.default_value.empty() ? "" : fmt::format(" (default {})", option.default_value)),
           option.group});
    } else if (shared->first.front() == option.name) {
      row_of_first[option.name] = rows.size();
      rows.push_back({names_of(option), shared->second, option.group});
    } else {
      rows[row_of_first.at(shared->first.front())].names += " " + names_of(option);
    }
  }
  size_t widest = 0;
  for (const auto& [names, text, group] : rows)
    if (names.size() <= kWidestNames) widest = std::max(widest, names.size());
  const size_t column = widest + 4;
  std::string options;
  for (const auto& [names, text, group] : rows) {
    if (!group.empty()) options += fmt::format("\n{}:\n", group);
    std::string line = fmt::format("  {:<{}}", names, widest + 2);
    if (names.size() > widest) {
      line = "  " + names + "  ";
      if (line.size() + text.size() > kHelpWidth) line = "  " + names + "\n" + std::string(column, ' ');
    }
    options += line + wrapped(text, column, line.find('\n') == std::string::npos ? line.size() : column) + "\n";
  }
  print_out(fmt::format("usage: ddl {} {}\n\n{}\noptions:\n{}\nexample:\n{}\n", help_.verb, help_.usage,
                        reflowed(help_.text), options, help_.example));
}

void VerbOptions::Parsed::take_option(const std::vector<std::string>& arguments, size_t& at) {
  const auto parse = [&](size_t count) {
    const auto begin = arguments.begin() + static_cast<ptrdiff_t>(at), end = begin + static_cast<ptrdiff_t>(count);
    const std::vector<po::option> read =
        po::command_line_parser({begin, end}).options(shown).style(kStyle).run().options;
    typed.insert(typed.end(), read.begin(), read.end());
    at += count;
  };
  try {
    parse(1);
  } catch (const po::invalid_command_line_syntax& error) {
    if (error.kind() != po::invalid_syntax::missing_parameter || at + 1 == arguments.size()) throw;
    parse(2);
  }
}

bool VerbOptions::parse(const std::vector<std::string>& arguments) { return parse(arguments, nullptr); }

bool VerbOptions::parse_with_command(const std::vector<std::string>& arguments, std::vector<std::string>& command) {
  word_kind_ = WordKind::kCommand;
  return parse(arguments, &command);
}

bool VerbOptions::parse(const std::vector<std::string>& arguments, std::vector<std::string>* command) {
  const std::string see_help = fmt::format("see: ddl {} --help", help_.verb);
  try {
    size_t at = 0;
    while (at < arguments.size() && arguments[at] != "--") {
      if (arguments[at].size() >= 2 && arguments[at][0] == '-') {
        parsed_->take_option(arguments, at);
      } else if (command == nullptr) {
        words_.push_back(arguments[at++]);
      } else {
        break;
      }
    }
    const bool dashes = at < arguments.size() && arguments[at] == "--";
    std::vector<std::string>& rest = command == nullptr ? words_ : *command;
    rest.insert(rest.end(), arguments.begin() + static_cast<ptrdiff_t>(at + (dashes ? 1 : 0)), arguments.end());
    po::parsed_options typed(&parsed_->shown);
    typed.options = std::move(parsed_->typed);
    po::store(typed, parsed_->values);
    if (has("help")) {
      print_help();
      return false;
    }
    po::notify(parsed_->values);
    check_values();
  } catch (const po::unknown_option& error) {
    std::vector<std::string> names;
    for (const auto& option : parsed_->shown.options()) names.push_back("--" + option->long_name());
    throw Error(fmt::format("unknown option {}", error.get_option_name()),
                did_you_mean(error.get_option_name(), names, see_help), ExitCode::kUsage);
  } catch (const po::error& error) {
    throw Error(error.what(), see_help, ExitCode::kUsage);
  }
  if (words_.size() > most_words_)
    throw Error(fmt::format("unexpected argument '{}'", words_[most_words_]), see_help, ExitCode::kUsage);
  return true;
}

}  // namespace ddl::cli
