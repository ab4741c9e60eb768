// Pickles of plain data. The opcodes are those of Python's pickletools; a torch pickler writes protocol 2.
#include <fmt/format.h>

#include <bit>
#include <cstdlib>
#include <unordered_map>

#include "core/number.h"
#include "store/import/plain_data.h"

namespace ddl::store {

namespace {

constexpr size_t kMostStack = 16 << 20, kMostMarks = 1000, kMostMemo = 8 << 20;
constexpr uint64_t kMostText = 16 << 20;

struct Refused {
  unsigned char opcode;
  const char* name;
};
/// What imports, calls or builds, or asks whoever unpickles for an object.
constexpr Refused kRefused[] = {{'c', "GLOBAL"}, {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},          {'i', "INST"},
                                {'o', "OBJ"},    {'b', "BUILD"},         {0x81, "NEWOBJ"},         {0x92, "NEWOBJ_EX"},
                                {'P', "PERSID"}, {'Q', "BINPERSID"},     {0x82, "EXT1"},           {0x83, "EXT2"},
                                {0x84, "EXT4"},  {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"}};

class Unpickler {
 public:
  Unpickler(std::string_view bytes, PlainData& data) : bytes_(bytes), data_(data) {}

  PlainData::Id run() {
    if (bytes_.size() < 2 || take() != 0x80) fail("not a pickle of protocol 2 to 5");
    const unsigned protocol = take();
    if (protocol < 2 || protocol > 5) fail(fmt::format("a pickle of protocol {}; 2 to 5 are read", protocol));
    for (;;) {
      opcode_at_ = at_;
      data_.at(at_);
      const unsigned char opcode = take();
      if (opcode == '.') break;
      step(opcode);
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("the pickle ends with more or less than one value");
    return stack_.back();
  }

 private:
  using Id = PlainData::Id;

  [[noreturn]] void fail(const std::string& what) const { throw BadData{opcode_at_, what}; }

  unsigned char take() {
    if (at_ >= bytes_.size()) fail("the file ends in the middle of a pickle");
    return static_cast<unsigned char>(bytes_[at_++]);
  }
  std::string_view piece(uint64_t length) {
    if (length > bytes_.size() - at_) fail("the file ends in the middle of a pickle");
    const std::string_view text = bytes_.substr(at_, length);
    at_ += length;
    return text;
  }
  uint64_t number(size_t width) {
    const std::string_view text = piece(width);
    uint64_t value = 0;
    for (size_t i = 0; i < width; ++i) value |= static_cast<uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
    return value;
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("the file ends in the middle of a pickle");
    const std::string_view text = piece(end - at_);
    ++at_;
    return text;
  }
  std::string text(uint64_t length) {
    if (length > kMostText) fail(fmt::format("a text of {} bytes", length));
    return std::string(piece(length));
  }

  void push(Id id) {
    if (stack_.size() >= kMostStack) fail(fmt::format("more than {} values on the stack", kMostStack));
    stack_.push_back(id);
  }
  /// Values below the newest mark are not to be taken.
  Id pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("the stack is empty");
    const Id id = stack_.back();
    stack_.pop_back();
    return id;
  }
  Id top() {
    const Id id = pop();
    stack_.push_back(id);
    return id;
  }
  std::vector<Id> pop_to_mark() {
    if (marks_.empty()) fail("no mark on the stack");
    const auto from = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
    std::vector<Id> items(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return items;
  }
  Id filled(Id container, const std::vector<Id>& items) {
    for (const Id item : items) data_.append(container, item);
    return container;
  }
  void add_to(PlainKind kind, const std::vector<Id>& items) {
    const Id container = top();
    if (data_.kind(container) != kind) fail("members added to something other than a list or dictionary");
    if (kind == PlainKind::kDict && items.size() % 2 != 0) fail("a key without a value");
    filled(container, items);
  }
  void tuple(size_t size) {
    std::vector<Id> items(size);
    for (size_t i = size; i > 0; --i) items[i - 1] = pop();
    push(filled(data_.list(), items));
  }
  void memoize(uint64_t key) {
    if (memo_.size() >= kMostMemo) fail(fmt::format("more than {} values in the memo", kMostMemo));
    memo_[key] = top();
  }
  void recall(uint64_t key) {
    const auto known = memo_.find(key);
    if (known == memo_.end()) fail(fmt::format("number {} is not in the memo", key));
    push(known->second);
  }
  int64_t decimal(std::string_view word) {
    if (word.ends_with('L')) word.remove_suffix(1);
    const auto value = number_in<int64_t>(word);
    if (!value) fail("an integer does not fit 64 bits");
    return *value;
  }
  void long_integer(uint64_t length) {
    if (length > sizeof(int64_t)) fail(fmt::format("an integer of {} bytes", length));
    uint64_t value = number(length);
    if (length > 0 && length < sizeof(int64_t) && (value >> (8 * length - 1)) != 0)
      value |= ~uint64_t{0} << (8 * length);
    push(data_.integer_of(static_cast<int64_t>(value)));
  }

  void step(unsigned char opcode) {
    switch (opcode) {
      case 0x80:
        fail("a pickle inside another");
      case 0x95:  // FRAME: how much belongs together; the opcodes inside say it all
        number(8);
        return;
      case '(':
        if (marks_.size() >= kMostMarks) fail(fmt::format("nested deeper than {} levels", kMostMarks));
        marks_.push_back(stack_.size());
        return;
      case '0':
        if (!marks_.empty() && stack_.size() == marks_.back()) {
          marks_.pop_back();
        } else {
          pop();
        }
        return;
      case '1':
        pop_to_mark();
        return;
      case '2':
        return push(top());
      case 'N':
        return push(data_.none());
      case 0x88:
      case 0x89:
        return push(data_.boolean(opcode == 0x88));
      case 'K':
        return push(data_.integer_of(static_cast<int64_t>(number(1))));
      case 'M':
        return push(data_.integer_of(static_cast<int64_t>(number(2))));
      case 'J':
        return push(data_.integer_of(static_cast<int32_t>(number(4))));
      case 'I':
      case 'L':
        return push(data_.integer_of(decimal(line())));
      case 0x8a:
        return long_integer(number(1));
      case 0x8b:
        return long_integer(number(4));
      case 'G': {
        uint64_t bits = 0;
        for (const char c : piece(8)) bits = bits << 8 | static_cast<unsigned char>(c);
        return push(data_.real(std::bit_cast<double>(bits)));
      }
      case 'F': {
        const std::string word(line());
        char* end = nullptr;
        const double value = std::strtod(word.c_str(), &end);
        if (word.empty() || *end != '\0') fail("expected a number");
        return push(data_.real(value));
      }
      case 'V':
        return push(data_.text_of(text_line()));
      case 'U':
      case 'C':
      case 0x8c:
        return push(data_.text_of(text(number(1))));
      case 'T':
      case 'B':
      case 'X':
        return push(data_.text_of(text(number(4))));
      case 0x8d:
      case 0x8e:
      case 0x96:
        return push(data_.text_of(text(number(8))));
      case ']':
      case ')':
      case 0x8f:
        return push(data_.list());
      case '}':
        return push(data_.dict());
      case 'l':
      case 't':
      case 0x91: {
        const std::vector<Id> items = pop_to_mark();
        return push(filled(data_.list(), items));
      }
      case 0x85:
      case 0x86:
      case 0x87:
        return tuple(opcode - 0x84U);
      case 'd': {
        const std::vector<Id> items = pop_to_mark();
        if (items.size() % 2 != 0) fail("a key without a value");
        return push(filled(data_.dict(), items));
      }
      case 'a': {
        const Id item = pop();
        return add_to(PlainKind::kList, {item});
      }
      case 'e':
      case 0x90: {
        const std::vector<Id> items = pop_to_mark();
        return add_to(PlainKind::kList, items);
      }
      case 's': {
        const Id value = pop(), key = pop();
        return add_to(PlainKind::kDict, {key, value});
      }
      case 'u': {
        const std::vector<Id> items = pop_to_mark();
        return add_to(PlainKind::kDict, items);
      }
      case 'p':
      case 'g': {
        const auto key = static_cast<uint64_t>(decimal(line()));
        return opcode == 'p' ? memoize(key) : recall(key);
      }
      case 'q':
        return memoize(number(1));
      case 'r':
        return memoize(number(4));
      case 'h':
        return recall(number(1));
      case 'j':
        return recall(number(4));
      case 0x94:
        return memoize(memo_.size());
      default:
        break;
    }
    for (const Refused& refused : kRefused)
      if (refused.opcode == opcode) fail(fmt::format("opcode {} would run code: refused", refused.name));
    fail(fmt::format("opcode 0x{:02x} is not one of plain data", opcode));
  }
  std::string text_line() {
    const std::string_view text = line();
    if (text.size() > kMostText || text.find('\\') != std::string_view::npos) fail("a text of protocol 0 with escapes");
    return std::string(text);
  }

  std::string_view bytes_;
  PlainData& data_;
  size_t at_ = 0, opcode_at_ = 0;
  std::vector<Id> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, Id> memo_;
};

}  // namespace

PlainData::Id read_pickle(std::string_view bytes, PlainData& data) { return Unpickler(bytes, data).run(); }

}  // namespace ddl::store
