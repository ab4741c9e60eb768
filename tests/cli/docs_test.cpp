// Command lines in the documentation: every verb, option and fixed value that they name is there, and so is every
// file they link to.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "cli/verbs.h"
#include "core/error.h"
#include "reports/rows.h"
#include "store/database.h"
#include "tests/support/synthetic_run.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

using Lines = std::vector<std::string>;

/// Words of a shell's line, by command: "a | b && c" are three.
std::vector<Lines> commands_of(const std::string& line) {
  std::vector<Lines> commands(1);
  std::string word;
  bool has_word = false;
  const auto end_word = [&] {
    if (has_word) commands.back().push_back(word);
    word.clear();
    has_word = false;
  };
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\'' || c == '"') {
      const size_t end = std::min(line.find(c, i + 1), line.size());
      word += line.substr(i + 1, end - i - 1);
      has_word = true;
      i = end;
    } else if (c == ' ') {
      end_word();
    } else if (c == '#' && !has_word) {
      break;
    } else if (std::string_view("|;&<>").find(c) != std::string_view::npos) {
      end_word();
      commands.emplace_back();
      if (c == '<' && line.substr(i, 2) == "<(") {
        ++i;
      } else if (c == '<' || c == '>') {
        commands.back().push_back("redirected");
      }
    } else {
      word += c;
      has_word = true;
    }
  }
  end_word();
  return commands;
}

/// What is wrong with it; empty: nothing, or it is not a command of ours.
std::string complaint(Lines words) {
  static const std::vector<CommandTable> tables = command_tables();
  static const std::regex assignment("[A-Z_]+=.*"), verb_name("[a-z]+");
  while (!words.empty() && (words[0] == "$" || words[0] == "sudo" || std::regex_match(words[0], assignment)))
    words.erase(words.begin());
  if (words.empty()) return "";
  const std::string program = fs::path(words[0]).filename();
  if (program != "ddl" && program != "ddl-top") return "";
  Lines rest(words.begin() + 1, words.end());
  std::string command = "top";
  if (program == "ddl") {
    if (rest.empty() || !std::regex_match(rest[0], verb_name)) return "";  // ddl --help, or what it printed
    command = rest[0];
    rest.erase(rest.begin());
    const auto verb = std::find_if(verbs().begin(), verbs().end(), [&](const Verb& v) { return v.name == command; });
    if (verb == verbs().end()) return fmt::format("no verb '{}'", command);
    if (verb->questions != nullptr) {
      if (rest.empty() || rest[0].starts_with("-") || rest[0] == "QUESTION") return "";
      command += " " + rest[0];
      rest.erase(rest.begin());
    }
  }
  const auto table =
      std::find_if(tables.begin(), tables.end(), [&](const CommandTable& t) { return t.verb == command; });
  if (table == tables.end()) return fmt::format("no question '{}'", command);
  for (size_t i = 0; i < rest.size(); ++i) {
    const std::string& word = rest[i];
    if (word == "--") break;
    if (!word.starts_with("-") || word == "-") {
      if (table->words == WordKind::kCommand && word != "...") break;  // the job's own
      continue;
    }
    const std::string spelled = word.substr(0, word.find('='));
    const auto option = std::find_if(table->options.begin(), table->options.end(), [&](const OptionRow& o) {
      return spelled == "--" + o.name || (!o.letter.empty() && spelled.substr(0, 2) == "-" + o.letter);
    });
    if (option == table->options.end() && spelled != "--help" && spelled != "-h")
      return fmt::format("ddl {} has no {}", command, spelled);
    if (option == table->options.end() || option->argument.empty()) continue;
    const bool attached = word.find('=') != std::string::npos || (!word.starts_with("--") && word.size() > 2);
    const std::string value = word.find('=') != std::string::npos ? word.substr(word.find('=') + 1)
                              : !attached && i + 1 < rest.size()  ? rest[i + 1]
                                                                  : "";
    if (!attached) ++i;
    const bool placeholder = std::all_of(value.begin(), value.end(), [](char c) {
      return std::isupper(static_cast<unsigned char>(c)) != 0 || c == '_';
    });
    if (option->closed && !placeholder &&
        std::find(option->values.begin(), option->values.end(), value) == option->values.end())
      return fmt::format("ddl {} {} takes no '{}'", command, spelled, value);
  }
  return "";
}

/// Queries of `ddl query` are tried on a store without rows.
std::string query_complaint(const Lines& words) {
  const auto verb = std::find(words.begin(), words.end(), "query");
  if (verb == words.end() || verb == words.begin() || fs::path(*(verb - 1)).filename() != "ddl") return "";
  static const test::ScratchFolder folder;
  static SQLite::Database store = create_store(folder / "run.sqlite");
  for (const std::string& word : words) {
    if (word.find(' ') == std::string::npos) continue;
    try {
      reports::Rows rows(store, word);
      rows.next();
    } catch (const Error& error) {
      return error.what();
    }
  }
  return "";
}

/// Lines of code in a page: indented ones, those between ```, and `spans` that begin with one of our programs.
Lines code_of(const std::string& page) {
  Lines lines;
  std::istringstream stream(page);
  std::string continued;
  bool fenced = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("```")) {
      fenced = !fenced;
    } else if (fenced || line.starts_with("    ")) {
      continued += line;
      if (continued.ends_with("\\")) {
        continued.pop_back();
      } else {
        lines.push_back(continued);
        continued.clear();
      }
    } else {
      static const std::regex span("`((?:[^ `]*/)?ddl(?:-top)? [^`]*)`");
      for (std::sregex_iterator at(line.begin(), line.end(), span); at != std::sregex_iterator(); ++at)
        lines.push_back((*at)[1]);
    }
  }
  return lines;
}

Lines complaints_of(const std::string& page) {
  Lines complaints;
  for (const std::string& line : code_of(page))
    for (const Lines& command : commands_of(line))
      for (const std::string& text : {complaint(command), query_complaint(command)})
        if (!text.empty()) complaints.push_back(fmt::format("{}: {}", line, text));
  return complaints;
}

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> pages() {
  const fs::path root = DDL_SOURCE_DIR;
  std::vector<fs::path> found = {root / "README.md", root / "CONTRIBUTING.md", root / "CHANGELOG.md"};
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  return found;
}

TEST(Documentation, NoticesWhatIsWrong) {
  EXPECT_EQ(complaints_of("    ddl report job.ddl --html x.html | less\n"), Lines{});
  EXPECT_EQ(complaints_of("    ddl record -o job.ddl --steps 1:2 -- ./train --nonsense\n"), Lines{});
  EXPECT_EQ(complaints_of("`ddl report --one-line` and `ddl-top -b -n 1`\n"), Lines{});
  EXPECT_EQ(complaints_of("    ddl reprot job.ddl\n").size(), 1U);
  EXPECT_EQ(complaints_of("    ddl report job.ddl --hmtl x\n").size(), 1U);
  EXPECT_EQ(complaints_of("```\nA=1 build/release/bin/ddl report \\\n  --hmtl x\n```\n").size(), 1U);
  EXPECT_EQ(complaints_of("see `ddl diff --fail-under 5%`\n").size(), 1U);
  EXPECT_EQ(complaints_of("    true && ddl top --color=sometimes\n").size(), 1U);
  EXPECT_EQ(complaints_of("    ddl model fitt job.ddl\n").size(), 1U);
  EXPECT_EQ(complaints_of("    ddl query job.ddl 'SELECT rank FROM v_step'\n"), Lines{});
  EXPECT_EQ(complaints_of("    ddl query job.ddl 'SELECT rnak FROM v_step'\n").size(), 1U);
  EXPECT_EQ(complaints_of("    ddl-top --one-line\n").size(), 1U);
  EXPECT_EQ(complaints_of("    source <(ddl completion csh --nonsense)\n").size(), 1U);
}

TEST(Documentation, CommandLinesAreGood) {
  size_t commands = 0;
  for (const fs::path& path : pages()) {
    const std::string page = contents(path);
    for (const std::string& line : code_of(page)) commands += line.find("ddl") != std::string::npos;
    for (const std::string& text : complaints_of(page)) ADD_FAILURE() << path << ": " << text;
  }
  EXPECT_GT(commands, 100U);
}

TEST(Documentation, ExamplesOfHelpAreGood) {
  for (const CommandTable& table : command_tables())
    for (const std::string& text :
         complaints_of(std::regex_replace("\n" + table.example, std::regex("\n +"), "\n    ")))
      ADD_FAILURE() << table.verb << ": " << text;
}

/// Every row of it names its tests; those of GoogleTest's and files are looked for.
TEST(Documentation, SourcesNameTestsThatAreThere) {
  const fs::path root = DDL_SOURCE_DIR;
  std::string tests;
  for (const auto& entry : fs::recursive_directory_iterator(root / "tests"))
    if (entry.path().extension() == ".cpp") tests += contents(entry.path());
  tests = std::regex_replace(tests, std::regex("\\n *"), " ");
  std::istringstream lines(contents(root / "docs/reference/sources.md"));
  const std::regex code("`([^`]+)`"), test("([A-Z]\\w+)\\.([A-Z]\\w+)"), file("tests/[\\w./]+");
  size_t named = 0;
  for (std::string line; std::getline(lines, line);) {
    for (std::sregex_iterator at(line.begin(), line.end(), code); at != std::sregex_iterator(); ++at) {
      const std::string words = (*at)[1];
      std::smatch parts;
      if (std::regex_match(words, parts, test)) {
        ++named;
        EXPECT_NE(tests.find(fmt::format("({}, {})", parts[1].str(), parts[2].str())), std::string::npos) << words;
      } else if (std::regex_match(words, file)) {
        EXPECT_TRUE(fs::exists(root / words)) << words;
      }
    }
  }
  EXPECT_GT(named, 50U);
}

TEST(Documentation, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)#:]+)(#[^)]*)?\))");
  for (const fs::path& path : pages()) {
    const std::string page = contents(path);
    for (std::sregex_iterator at(page.begin(), page.end(), link); at != std::sregex_iterator(); ++at) {
      const std::string target = (*at)[1];
      EXPECT_TRUE(fs::exists(path.parent_path() / target)) << path << ": " << target;
    }
  }
}

}  // namespace
}  // namespace ddl::cli
