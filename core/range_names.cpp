// Names as frameworks write them:
//
//   torch.autograd.profiler.emit_nvtx   NAME[, seq = N][, op_id = N][, sizes = [..]][, input_op_ids =
//                                       [..]], a new string for every call: the numbers must go, or each
//                                       call would be a name of its own
//   torch.profiler, DeepSpeed           ProfilerStep#12, DeepSpeedEngine.forward, Optimizer.step#SGD.step,
//                                       enumerate(DataLoader)#...
//   PytHooks                            {'Module': 'model.layers.0', ...}
//   people                              step 12, forward, layer:conv1
#include "core/range_names.h"

#include <string.h>
#include <strings.h>

namespace ddl {

namespace {

/// A piece of text that is not terminated.
struct Text {
  const char* begin;
  size_t length;

  bool starts_with(const char* prefix) const {
    const size_t n = strlen(prefix);
    return length >= n && memcmp(begin, prefix, n) == 0;
  }
  bool is(const char* word) const { return length == strlen(word) && strncasecmp(begin, word, length) == 0; }
  bool contains(const char* part) const { return memmem(begin, length, part, strlen(part)) != nullptr; }
  Text from(size_t at) const { return {begin + at, length - at}; }
  Text upto(char end) const {
    const void* found = memchr(begin, end, length);
    return {begin, found ? static_cast<size_t>(static_cast<const char*>(found) - begin) : length};
  }
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Takes a number off the front; false: there is none, or one that no counter reaches.
bool take_number(Text& text, uint64_t& number) {
  size_t digits = 0;
  number = 0;
  while (digits < text.length && is_digit(text.begin[digits]))
    number = number * 10 + static_cast<uint64_t>(text.begin[digits++] - '0');
  text = text.from(digits);
  return digits > 0 && digits < 19;
}

bool take(Text& text, const char* prefix) {
  if (!text.starts_with(prefix)) return false;
  text = text.from(strlen(prefix));
  return true;
}

/// Is this, and nothing else, what emit_nvtx appends to a name? Lists are believed once they have begun: they may be
/// cut.
bool parse_suffix(Text text, RangeNumbers& numbers) {
  numbers = {};
  if (take(text, ", seq = ")) {
    if (!take_number(text, numbers.seq)) return false;
    numbers.has_seq = true;
  }
  if (take(text, ", op_id = ")) {
    if (!take_number(text, numbers.op_id)) return false;
    numbers.has_op_id = true;
  }
  return text.length == 0 || text.starts_with(", sizes = [") || text.starts_with(", input_op_ids = [");
}

/// Cuts the suffix off.
void take_suffix(Text& text, RangeNumbers& numbers) {
  for (const char* at = text.begin;
       (at = static_cast<const char*>(memmem(at, static_cast<size_t>(text.begin + text.length - at), ", ", 2))); ++at) {
    const size_t length = static_cast<size_t>(at - text.begin);
    if (!parse_suffix(text.from(length), numbers)) continue;
    text.length = length;
    return;
  }
  numbers = {};
}

void set(RangeName& name, Text text, ContextKind kind) {
  name.text = text.begin;
  name.length = text.length;
  name.kind = static_cast<uint32_t>(kind);
}

constexpr const char* kStepNames[] = {"step",       "iteration",     "iter",       "ProfilerStep",
                                      "train_step", "training_step", "train step", "training step"};

/// "step", "step 12", "Step_12", "ProfilerStep#12", "iteration: 7"
bool parse_step(Text text, const char* more, RangeName& name) {
  size_t digits = 0;
  while (digits < text.length && is_digit(text.begin[text.length - 1 - digits])) ++digits;
  Text number = text.from(text.length - digits);
  Text word = {text.begin, text.length - digits};
  while (word.length > 0 && strchr(" \t_#:=-", word.begin[word.length - 1]) && word.begin[word.length - 1])
    --word.length;
  bool is_step = false;
  for (const char* known : kStepNames) is_step = is_step || word.is(known);
  for (Text rest = {more, more ? strlen(more) : 0}; rest.length > 0 && !is_step;) {
    const Text known = rest.upto(',');
    is_step = known.length > 0 && known.length == word.length && strncasecmp(known.begin, word.begin, word.length) == 0;
    rest = rest.from(known.length < rest.length ? known.length + 1 : known.length);
  }
  if (!is_step) return false;
  set(name, word, ContextKind::kStep);
  name.has_step = take_number(number, name.step);
  return true;
}

struct PhaseName {
  const char* written;
  const char* shown;  ///< NULL: as written
};
constexpr PhaseName kPhases[] = {{"forward", "forward"},
                                 {"fwd", "forward"},
                                 {"forward pass", "forward"},
                                 {"forward_pass", "forward"},
                                 {"DeepSpeedEngine.forward", "forward"},
                                 {"backward", "backward"},
                                 {"bwd", "backward"},
                                 {"backward pass", "backward"},
                                 {"backward_pass", "backward"},
                                 {"DeepSpeedEngine.backward", "backward"},
                                 {"loss", "loss"},
                                 {"update", "update"},
                                 {"optimizer", "update"},
                                 {"optimizer step", "update"},
                                 {"optimizer_step", "update"},
                                 {"optimizer.step", "update"},
                                 {"DeepSpeedEngine.step", "update"},
                                 {"zero_grad", "zero_grad"},
                                 {"optimizer.zero_grad", "zero_grad"},
                                 {"input", "input"},
                                 {"data", "input"},
                                 {"data_loading", "input"},
                                 {"data loading", "input"},
                                 {"dataloader", "input"},
                                 {"load_batch", "input"},
                                 {"allreduce", "allreduce"},
                                 {"validation", "validation"},
                                 {"evaluation", "evaluation"},
                                 {"checkpoint", "checkpoint"}};

/// Phases whose names the analyzer knows (analyzer/passes/input_ranges.h, analyzer/findings/pauses.h), kept as written.
/// Any other name may be a layer's, and what is named so by "layer:" is one.
constexpr const char* kBesideTraining[] = {"load",       "input_pipeline",     "checkpointing",      "checkpoint_save",
                                           "torch.save", "garbage collection", "garbage_collection", "gc",
                                           "gc.collect", "compilation",        "recompilation",      "torch.compile"};
constexpr const char* kLoadingWords[] = {"dataload", "load_data", "data_load", "load_batch", "next_batch"};

/// What frameworks call their functions.
constexpr const char* kOperatorPrefixes[] = {
    "aten::", "torch::", "autograd::", "prim::", "prims::", "c10d::", "quantized::", "xla::"};

bool parse_phase(Text text, RangeName& name) {
  if (text.starts_with("Optimizer.")) text = text.upto('#');  // Optimizer.step#SGD.step
  if (text.starts_with("enumerate(DataLoader)")) text = {"dataloader", 10};
  for (const PhaseName& phase : kPhases) {
    if (!text.is(phase.written)) continue;
    set(name, {phase.shown, strlen(phase.shown)}, ContextKind::kPhase);
    return true;
  }
  return false;
}

/// Behind the first place that holds `word`, in any case; nullptr: none does.
const char* behind_word(Text text, const char* word) {
  const size_t length = strlen(word);
  for (size_t at = 0; at + length <= text.length; ++at)
    if (strncasecmp(text.begin + at, word, length) == 0) return text.begin + at + length;
  return nullptr;
}

bool is_beside_training(Text text) {
  for (const char* known : kBesideTraining)
    if (text.is(known)) return true;
  for (const char* word : kLoadingWords)
    if (behind_word(text, word)) return true;
  const char* saved = behind_word(text, "save");
  return saved && behind_word(text.from(static_cast<size_t>(saved - text.begin)), "checkpoint");
}

bool is_operator(Text text, const RangeNumbers& numbers) {
  for (const char* prefix : kOperatorPrefixes) {
    if (text.starts_with(prefix)) return true;
  }
  return numbers.has_seq || (numbers.has_op_id && text.contains("::"));
}

/// Never in the middle of a character of UTF-8.
size_t cut(const char* text, size_t length) {
  if (length <= kMaxRangeNameBytes) return length;
  size_t end = kMaxRangeNameBytes;
  while (end > kMaxRangeNameBytes - 4 && (text[end] & 0xc0) == 0x80) --end;
  return end;
}

void classify(Text text, const char* step_names, RangeName& name) {
  if (take(text, "layer:")) return set(name, text, ContextKind::kLayer);
  if (take(text, "phase:")) return set(name, text, ContextKind::kPhase);
  if (take(text, "{'Module': '")) return set(name, text.upto('\''), ContextKind::kLayer);
  if (parse_step(text, step_names, name) || parse_phase(text, name)) return;
  if (text.starts_with("autograd::engine::evaluate_function: ")) {
    name.kind = 0;  // holds one operator, which says the same
    return;
  }
  set(name, text,
      is_operator(text, name.numbers) ? ContextKind::kOperator
      : is_beside_training(text)      ? ContextKind::kPhase
                                      : ContextKind::kLayer);
  if (name.kind != static_cast<uint32_t>(ContextKind::kOperator)) return;
  name.is_backward = text.starts_with("torch::autograd::") || (!text.contains("::") && text.contains("Backward"));
}

}  // namespace

RangeName parse_range_name(const char* text, size_t length, const char* step_names) {
  RangeName name = {};
  Text whole = {text, length};
  take_suffix(whole, name.numbers);
  set(name, whole, ContextKind::kLayer);
  classify(whole, step_names, name);
  name.length = cut(name.text, name.length);
  return name;
}

uint32_t kind_of_category(const char* name) {
  if (strcasecmp(name, "step") == 0) return static_cast<uint32_t>(ContextKind::kStep);
  if (strcasecmp(name, "phase") == 0) return static_cast<uint32_t>(ContextKind::kPhase);
  if (strcasecmp(name, "layer") == 0) return static_cast<uint32_t>(ContextKind::kLayer);
  return 0;
}

size_t narrow(const wchar_t* wide, char* to, size_t capacity) {
  size_t used = 0;
  for (; *wide; ++wide) {
    uint32_t c = static_cast<uint32_t>(*wide);
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = '?';
    const size_t bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (used + bytes + 1 > capacity) break;
    if (bytes == 1) {
      to[used++] = static_cast<char>(c);
      continue;
    }
    constexpr unsigned char kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    to[used++] = static_cast<char>(kLead[bytes] | c >> (6 * (bytes - 1)));
    for (size_t i = bytes - 1; i-- > 0;) to[used++] = static_cast<char>(0x80 | (c >> (6 * i) & 0x3f));
  }
  to[used] = 0;
  return used;
}

}  // namespace ddl
