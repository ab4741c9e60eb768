#include "autotuner/emit/format.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/models/large_batch.h"
#include "autotuner/openmpi_allreduce.h"
#include "core/number.h"
#include "store/text.h"

namespace ddl::tune {
namespace {

constexpr size_t kColumns = 120;

std::string gain_in_words(const Tuned& tuned) {
  if (!tuned.gain) return "none, nothing is changed: " + tuned.kept;
  const Gain& gain = *tuned.gain;
  return fmt::format(
      "{:.3f} times the default's {} ({} {:.3f} .. {:.3f} over {} paired rounds{}{}; the default against itself {:.3f} .. {:.3f})",
      gain.ratio, tuned.goal.empty() ? "speed" : tuned.goal,
      gain.of_rounds ? "lowest and highest round" : fmt::format("{:g} % interval", 100 * gain.confidence), gain.lo,
      gain.hi, gain.rounds, tuned.in_run ? ", blocks of steps of one run" : "",
      gain.spans_search ? " and what the search had seen before" : "", gain.noise_lo, gain.noise_hi);
}

std::string where(const Tuned& tuned) {
  return fmt::format("{}; {}; {} ranks on {} {}", tuned.machine,
                     tuned.mpi_library.empty() ? "MPI library unknown" : tuned.mpi_library, tuned.ranks, tuned.nodes,
                     tuned.nodes == 1 ? "node" : "nodes");
}

/// Where this file sets one.
std::string iallreduce_that_needs_commutative(const Emission& emission, const Content& content) {
  const std::string_view parameter = std::string_view(kIallreduceVariable).substr(std::string_view("OMPI_MCA_").size());
  for (const auto& [name, value] : emission.environment)
    if (name == kIallreduceVariable && openmpi_iallreduce_needs_commutative(value) &&
        content.text.find(parameter) != std::string::npos)
      return value;
  return "";
}

/// Cuts at blanks, else where the line is full, never within a character.
std::vector<std::string> wrapped(const std::string& text, size_t columns) {
  std::vector<std::string> lines;
  size_t at = 0;
  while (text.size() - at > columns) {
    size_t end = text.rfind(' ', at + columns);
    const bool blank = end != std::string::npos && end > at;
    if (!blank) {
      for (end = at + columns; end > at + 1 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80;) --end;
    }
    lines.push_back(text.substr(at, end - at));
    at = blank ? end + 1 : end;
  }
  lines.push_back(text.substr(at));
  return lines;
}

}  // namespace

bool Emission::environment_has(std::string_view name) const {
  return std::any_of(environment.begin(), environment.end(),
                     [&](const auto& variable) { return variable.first == name; });
}

std::string typed(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& argument : without_secrets(command)) {
    if (!text.empty()) text += ' ';
    text += shell_quoted(argument);
  }
  return text;
}

bool changes_order_of_sums(const Tuned& tuned) {
  // What is reduced together is cut into other parts, which begin on other ranks.
  constexpr std::string_view kOrdering[] = {"NCCL_ALGO", "NCCL_PROTO", "HOROVOD_FUSION_THRESHOLD",
                                            "HOROVOD_CYCLE_TIME"};
  constexpr std::string_view kOrderingParts[] = {"ALGORITHM", "_algorithm", "HIERARCHICAL_ALLREDUCE"};
  const auto orders = [&](const std::string& name) {
    return std::find(std::begin(kOrdering), std::end(kOrdering), name) != std::end(kOrdering) ||
           std::any_of(std::begin(kOrderingParts), std::end(kOrderingParts),
                       [&](std::string_view part) { return name.find(part) != std::string::npos; });
  };
  const auto lacks = [&](const Variables& others) {
    return [&](const auto& variable) {
      return orders(variable.first) && std::find(others.begin(), others.end(), variable) == others.end();
    };
  };
  const bool sets = std::any_of(tuned.environment.begin(), tuned.environment.end(), lacks(tuned.default_environment)),
             leaves_out = std::any_of(tuned.default_environment.begin(), tuned.default_environment.end(),
                                      lacks(tuned.environment));
  const auto takes_away = [&](const std::string& name) {
    return orders(name) &&
           std::find(tuned.default_unset.begin(), tuned.default_unset.end(), name) == tuned.default_unset.end();
  };
  // Rules that the default has as well are no change.
  const auto algorithm =
      std::find_if(tuned.choices.begin(), tuned.choices.end(), [](const Choice& c) { return c.name == "algorithm"; });
  const bool rules = (algorithm == tuned.choices.end() || algorithm->value != algorithm->default_value) &&
                     std::any_of(tuned.allreduce_rules.begin(), tuned.allreduce_rules.end(),
                                 [](const auto& rule) { return rule.algorithm != 0; });
  return rules || sets || leaves_out || std::any_of(tuned.unset.begin(), tuned.unset.end(), takes_away) ||
         !tuned.nccl_rules.empty() || tuned.bucket_bytes;
}

std::string numeric_choices(const Tuned& tuned) {
  std::string names;
  for (const Choice& choice : tuned.choices) {
    if (!choice.numeric || choice.value == choice.default_value) continue;
    if (!names.empty()) names += ", ";
    names += choice.name;
  }
  return names;
}

std::optional<double> batch_factor(const Tuned& tuned) {
  const auto choice =
      std::find_if(tuned.choices.begin(), tuned.choices.end(), [](const Choice& c) { return c.name == "batch"; });
  if (!tuned.batch_per_rank || choice == tuned.choices.end()) return std::nullopt;
  std::string_view text = choice->default_value;
  const auto before = take_number<double>(text);
  return before > 0 ? std::optional(static_cast<double>(*tuned.batch_per_rank) / *before) : std::nullopt;
}

std::vector<std::string> batch_advice(const Tuned& tuned) {
  const auto factor = batch_factor(tuned);
  if (!factor) return {};
  const double batch = static_cast<double>(*tuned.batch_per_rank) * static_cast<double>(tuned.ranks);
  return models::batch_change_advice(batch / *factor, batch, tuned.noise_scale);
}

std::vector<std::string> heading(const Emission& emission, const Format& format, const Content& content) {
  const Tuned& tuned = emission.tuned;
  std::vector<std::string> lines = {
      fmt::format("{}: written by ddl tune {} for {}", format.file, DDL_VERSION, format.reader),
      fmt::format("run:   {}, {}", tuned.run, tuned.date), fmt::format("on:    {}", where(tuned)),
      fmt::format("job:   {}", typed(tuned.command)), fmt::format("gain:  {}", gain_in_words(tuned))};
  if (content.changes) {
    if (const std::string numeric = numeric_choices(tuned); !numeric.empty())
      lines.push_back(fmt::format(
          "note:  the tuned job computes something else than by default ({}): compare its losses", numeric));
    for (const std::string& sentence : batch_advice(tuned)) lines.push_back("batch: " + sentence);
    if (changes_order_of_sums(tuned))
      lines.push_back("note:  sums are added in another order than by default: results differ in their last bits");
    if (const std::string algorithm = iallreduce_that_needs_commutative(emission, content); !algorithm.empty())
      lines.push_back(fmt::format(
          "note:  iallreduce={} needs operations that commute, and Open MPI does not ask: with an MPI_Op of the program's own "
          "that does not, results of MPI_Iallreduce would be WRONG. MPI_SUM, MPI_MAX and the like commute",
          algorithm));
    lines.push_back(fmt::format("undo:  {}", format.undo));
  } else if (tuned.gain) {
    lines.push_back("This file changes nothing.");
  }
  if (!content.note.empty()) lines.push_back(fmt::format("note:  {}", content.note));
  for (std::string& line : lines) line = clean_text(line);
  return lines;
}

std::string commented(const std::vector<std::string>& lines, std::string_view sign) {
  std::string text;
  for (const std::string& line : lines) {
    bool first = true;
    for (const std::string& piece : wrapped(line, kColumns - 9)) {
      text += fmt::format("{} {}{}\n", sign, first ? "" : "       ", piece);
      first = false;
    }
  }
  return text;
}

Variables with_prefix(const Variables& variables, std::string_view prefix) {
  Variables found;
  std::copy_if(variables.begin(), variables.end(), std::back_inserter(found),
               [&](const auto& v) { return v.first.starts_with(prefix); });
  return found;
}

std::string shell_assignments(const Variables& variables) {
  std::string text;
  for (const auto& [name, value] : variables) text += fmt::format("{}={}\n", name, shell_quoted(value));
  return text;
}

std::string shell_unset(const Emission& emission, std::string_view prefix) {
  std::string text;
  for (const std::string& name : emission.tuned.unset)
    if (name.starts_with(prefix)) text += " " + name;
  return text.empty() ? "" : "unset" + text + "\n";
}

void note_unset(const Emission& emission, std::string_view prefix, Content& content) {
  std::string line = shell_unset(emission, prefix);
  if (line.empty()) return;
  line.pop_back();
  content.note +=
      fmt::format("{}where the job's environment has it: {} (tuned.env does)", content.note.empty() ? "" : "; ", line);
}

std::string plain_assignments(const Variables& variables, std::string_view cut_from_names, std::string_view equals,
                              Content& content) {
  std::string text, left_out;
  for (const auto& [name, value] : variables) {
    const bool blank_ends = !value.empty() && (value.front() <= ' ' || value.back() <= ' ');
    if (value.empty() || blank_ends || value.find_first_of("\n\r") != std::string::npos) {
      left_out += (left_out.empty() ? "" : ", ") + name;
    } else {
      text += fmt::format("{}{}{}\n", name.substr(cut_from_names.size()), equals, value);
      content.changes = true;
    }
  }
  if (!left_out.empty())
    content.note = "left out, this format cannot hold the value: " + left_out + " (tuned.env has it)";
  return text;
}

}  // namespace ddl::tune
