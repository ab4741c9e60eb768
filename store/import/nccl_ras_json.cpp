// The answer of `ncclras -f json`, as src/ras/client_support.cc of NCCL writes it since 2.28.7; 2.28.9
// leaves out a comma.
#include <fmt/format.h>

#include <set>

#include "store/import/imported_run.h"
#include "store/import/nccl_ras.h"
#include "store/import/plain_data.h"

namespace ddl::store {

namespace {

using Id = PlainData::Id;

struct BadRasRecord {
  std::string what;
};

class RasJson {
 public:
  explicit RasJson(std::string_view text) : text_(text) {}

  RasAnswer read() {
    here_ = read_json_document(text_, data_, true);
    try {
      document(here_);
    } catch (const BadRasRecord& bad) {
      throw BadData{data_.offset(here_), bad.what};
    }
    return std::move(answer_);
  }

 private:
  std::string_view word(Id dict, std::string_view key) const {
    const auto id = data_.find(dict, key);
    return id ? data_.text(*id) : std::string_view();
  }
  int64_t number(Id dict, std::string_view key, int64_t least, int64_t most) const {
    const auto id = data_.find(dict, key);
    const auto value = id ? data_.integer(*id) : std::nullopt;
    if (!value || *value < least || *value > most)
      throw BadRasRecord{fmt::format("{} is missing or out of range", key)};
    return *value;
  }

  void document(Id root) {
    const auto communicators = data_.find(root, "communicators");
    if (!communicators || !data_.is_list(*communicators))
      throw BadRasRecord{"not an NCCL RAS answer: no communicators"};
    for (const Id id : data_.members(*communicators)) answer_.communicators.push_back(communicator(id));
    answer_.version = word(root, "nccl_version");
  }

  RasCommunicator communicator(Id id) {
    here_ = id;
    RasCommunicator c;
    c.hash = word(id, "hash");
    c.size = number(id, "size", 1, kMaxRanks);
    const auto read = [&](const char* key, std::vector<RasRank>& ranks, bool answers) {
      const auto list = data_.find(id, key);
      if (!list || !data_.is_list(*list)) return;
      std::set<int64_t> seen;
      for (const Id member : data_.members(*list)) {
        here_ = member;
        if (!answers && is_only_no_member(member)) continue;
        ranks.push_back(rank(member, c, answers));
        if (!seen.insert(ranks.back().number).second)
          throw BadRasRecord{fmt::format("rank {} occurs twice", ranks.back().number)};
      }
    };
    read("ranks", c.ranks, true);
    read("missing_ranks", c.missing, false);
    return c;
  }

  /// It answers, and knows nothing of this communicator.
  bool is_only_no_member(Id missing) const {
    const auto status = data_.find(missing, "status");
    const auto is_false = [&](const char* key) {
      const auto id = status ? data_.find(*status, key) : std::nullopt;
      return id && data_.integer(*id) == 0;
    };
    return is_false("unresponsive") && is_false("considered_dead");
  }

  RasRank rank(Id id, const RasCommunicator& c, bool answers) {
    RasRank r;
    r.number = number(id, "rank", 0, c.size - 1);
    r.gpu = {std::string(word(id, "host")), number(id, "pid", -1, INT32_MAX), number(id, "cuda_dev", -1, 1 << 20)};
    if (r.gpu.pid < 0) r.gpu = unknown_gpu(c.hash, r.number);
    if (!answers) return r;
    if (const auto counts = data_.find(id, "collective_counts"); counts && data_.is_dict(*counts)) {
      const std::vector<Id>& members = data_.members(*counts);
      for (size_t i = 1; i < members.size(); i += 2) {
        const auto count = data_.integer(members[i]);
        if (!count || *count < 0 || *count > kMostRasLaunched)
          throw BadRasRecord{"a count of operations is out of range"};
        r.launched[std::string(data_.text(members[i - 1]))] = *count;
      }
    }
    if (const auto status = data_.find(id, "status"); status && data_.is_dict(*status)) read_status(*status, r, c);
    return r;
  }

  void read_status(Id status, RasRank& r, const RasCommunicator& c) {
    constexpr int64_t kInProgress = 7;  // ncclInProgress
    const auto value = [&](const char* key) {
      const auto id = data_.find(status, key);
      return id ? data_.integer(*id).value_or(0) : 0;
    };
    for (const char* key : {"init_state", "async_error"}) {
      const int64_t code = value(key);
      if (code == 0 || code == kInProgress) continue;
      answer_.errors.push_back(fmt::format("rank {} of {} ({} {})", r.number, c.hash, key, code));
      ++answer_.error_count;
    }
    if (value("abort_flag") != 0) {
      r.status = "ABORT";
    } else if (value("finalize_called") != 0 || value("destroy_flag") != 0) {
      r.status = "FINALIZE";
    } else {
      r.status = value("init_state") == 0 ? "RUNNING" : "INIT";
    }
  }

  std::string_view text_;
  PlainData data_;
  Id here_ = 0;
  RasAnswer answer_;
};

}  // namespace

RasAnswer read_ras_json(std::string_view text) { return RasJson(text).read(); }

}  // namespace ddl::store
