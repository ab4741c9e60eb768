#include "tui/terminal.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/regular_file.h"
#include "tui/session.h"
#include "tui/snapshot.h"

namespace ddl::tui {
namespace {

/// Writes beside what is there, never over it. Returns what came of it.
std::string save_new(const std::filesystem::path& path, const std::string& text) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, error)))
    return fmt::format("{} is there already", path.string());
  std::ofstream file(path);
  file << text;
  file.close();
  return file ? "" : fmt::format("cannot write {}", path.string());
}

std::string export_frame(const Session& session, const Frame& frame) {
  const Snapshot& s = session.shown();
  const std::string name = fmt::format("ddl-top-step-{}", s.step.value_or(0));
  for (const auto& [suffix, text] :
       {std::pair<std::string, std::string>{".txt", frame.text()}, {".json", to_json(s) + "\n"}}) {
    if (const std::string problem = save_new(name + suffix, text); !problem.empty()) return problem;
  }
  return fmt::format("saved {0}.txt and {0}.json", name);
}

/// The user's own file beside the run: what belongs to the run stays as the job wrote it.
std::string add_note(const std::filesystem::path& path, const Snapshot& s, const std::string& text) {
  if (const std::string why = why_no_file(path.string(), NamedBy::kFolder); !why.empty())
    return fmt::format("cannot write {}: it is {}", path.string(), why);
  std::ofstream file(path, std::ios::app);
  file << "step " << s.step.value_or(0) << "  " << s.clock << "  " << text << "\n";
  file.close();
  return file ? fmt::format("marked step {} in {}", s.step.value_or(0), path.string())
              : fmt::format("cannot write {}", path.string());
}

}  // namespace

int run_screen(Source& source, const TopOptions& options, Color color) {
  Job job;
  Observer observer;
  OwnCost cost;
  Session session(options.view);
  Terminal terminal(color);
  std::pair<std::string, std::string> waiting;  // why there is nothing yet
  double next_look = monotonic_s();
  int looks = 0;
  for (;;) {
    if (monotonic_s() >= next_look) {
      try {
        source.poll(job, session.view().interval_s);
        Snapshot snapshot = observer.look(job, options.replay);
        snapshot.interval_s = session.view().interval_s;
        if (looks > 0) snapshot.own_cpu_ratio = cost.cpu_ratio();
        session.add(std::move(snapshot));
        ++looks;
      } catch (const Error& error) {
        if (!session.empty() || error.code() != ExitCode::kDataMissing || job.recorded_end) throw;
        waiting = {error.what(), error.hint()};
      }
      next_look = monotonic_s() + session.view().interval_s;
    }
    const Size size = terminal.size();
    if (session.empty()) {
      Frame frame(size);
      frame.put(0, 0, "ddl-top  waiting", Style::kTitle);
      frame.put(0, 1, waiting.first, Style::kPlain);
      frame.put(0, 2, waiting.second.substr(0, waiting.second.find(": try again")), Style::kPlain);
      frame.put(0, size.height - 1, "q quit", Style::kKey);
      terminal.show(frame);
    } else {
      terminal.show(draw(session.shown(), size, options.theme, session.view()));
    }
    if (Terminal::asked_to_end() || (options.frames && looks >= *options.frames)) return 0;
    const int key = terminal.read(std::max(0.0, next_look - monotonic_s()));
    if (key == kNoKey) continue;
    if (key == kClick) {
      const auto [x, y] = terminal.click();
      session.click(x, y, size);
      continue;
    }
    switch (session.press(key, size)) {
      case Session::Wish::kQuit:
        return 0;
      case Session::Wish::kExport:
        session.tell(export_frame(session, draw(session.shown(), size, options.theme, session.view())));
        break;
      case Session::Wish::kMark: {
        const std::string text = fmt::format("mark {}", session.view().marks.size() + 1);
        session.tell(add_note(options.notes, session.shown(), text));
        session.mark(text);
        break;
      }
      case Session::Wish::kSave:
        session.tell(options.save_setup(session.view()));
        break;
      case Session::Wish::kNothing:
        break;
    }
  }
}

}  // namespace ddl::tui
