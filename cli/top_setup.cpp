#include "cli/top_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/terminal.h"
#include "core/error.h"
#include "core/regular_file.h"

namespace ddl::cli {
namespace {

std::filesystem::path setup_path() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config == '/') return std::filesystem::path(config) / "ddl" / "top.conf";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::filesystem::path(home) / ".config" / "ddl" / "top.conf"
                                         : std::filesystem::path();
}

std::string lower(std::string text) {
  for (char& ch : text) ch = static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
  return text;
}

bool take(tui::View& view, const std::string& name, const std::string& value) {
  if (name == "sort") {
    view.sort = parse_column(value);
  } else if (name == "interval_s") {
    view.interval_s = std::strtod(value.c_str(), nullptr);
    if (!(view.interval_s >= 0.1 && view.interval_s <= 3600)) view.interval_s = 1;
  } else if (name == "panels" && value.size() == 4) {
    for (size_t i = 0; i < 4; ++i) view.panels[i] = value[i] != '0';
  } else if (name == "inverted") {
    view.inverted = value == "1";
  } else if (name == "by_node") {
    view.by_node = value == "1";
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> column_names() {
  std::vector<std::string> names;
  for (int i = 0; i < tui::kColumns; ++i) names.push_back(lower(tui::name_of(static_cast<tui::Column>(i))));
  return names;
}

tui::Column parse_column(const std::string& text) {
  const std::vector<std::string> names = column_names();
  const auto name = std::find(names.begin(), names.end(), text);
  if (name == names.end()) throw Error(fmt::format("there is no column '{}'", text));
  return static_cast<tui::Column>(name - names.begin());
}

tui::View load_setup() {
  tui::View view;
  std::error_code error;
  if (setup_path().empty() || !std::filesystem::exists(setup_path(), error)) return view;
  std::string text;
  try {
    text = read_regular_file(setup_path().string(), NamedBy::kUser, 1 << 20);  // people link their configuration
  } catch (const Error& unreadable) {
    print_note(fmt::format("{}: using the defaults", unreadable.what()));
  }
  std::istringstream file(text);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const size_t equals = line.find('=');
    if (line.empty() || line.front() == '#') continue;
    bool good = false;
    try {
      good = equals != std::string::npos && take(view, line.substr(0, equals), line.substr(equals + 1));
    } catch (const Error&) {
    }
    if (!good) print_note(fmt::format("{}:{}: ignored, invalid setting: {}", setup_path().string(), number, line));
  }
  return view;
}

std::string save_setup(const tui::View& view) {
  const std::filesystem::path path = setup_path();
  if (path.empty()) return "nowhere to save it: neither XDG_CONFIG_HOME nor HOME is set";
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::string panels;
  for (const bool shown : view.panels) panels += shown ? '1' : '0';
  if (const std::string why = why_no_file(path.string(), NamedBy::kUser);
      !why.empty() || std::filesystem::is_fifo(path, error))
    return fmt::format("cannot write {}: it is {}", path.string(), why.empty() ? "a FIFO, not a file" : why);
  std::ofstream file(path);
  file << fmt::format("# ddl-top\nsort={}\ninverted={}\nby_node={}\ninterval_s={}\npanels={}\n",
                      lower(tui::name_of(view.sort)), view.inverted ? 1 : 0, view.by_node ? 1 : 0, view.interval_s,
                      panels);
  file.close();
  return file ? "saved to " + path.string() : "cannot write " + path.string();
}

}  // namespace ddl::cli
