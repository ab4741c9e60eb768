#include "analyzer/passes/passes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/passes/instance.h"
#include "analyzer/passes/requested_bytes.h"
#include "analyzer/passes/training_thread.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

/// What one rank said in one cycle.
struct Word {
  int64_t process = 0;
  int64_t enter_ns = 0;
  std::optional<int64_t> far;  ///< bits set, or bytes of requests (RequestedBytes)
};

/// A collective in which ranks said how far they are.
struct Cycle {
  bool by_bits = false;
  bool asks = false;  ///< some list has a request
  int64_t agreed_bits = 0;
  std::vector<Word> words;  ///< by process

  const Word* of(int64_t process) const {
    const auto word =
        std::lower_bound(words.begin(), words.end(), process, [](const Word& w, int64_t p) { return w.process < p; });
    return word != words.end() && word->process == process ? &*word : nullptr;
  }
};

/// Negotiations on one communicator, collective after collective.
class Negotiations {
 public:
  /// `one_clock`: times of all processes can be compared.
  Negotiations(SQLite::Database& db, bool one_clock)
      : one_clock_(one_clock),
        named_(
            db,
            "SELECT p.id, r.ready_ns, r.rank FROM horovod_operation o JOIN horovod_ready r ON r.operation = o.id"
            " JOIN process p ON p.rank = r.rank AND p.world = (SELECT world FROM process WHERE id = ?3) WHERE o.comm = ?1 AND o.seq = ?2"
            " ORDER BY r.rank"),
        insert_(
            db,
            "INSERT INTO negotiation (process, comm, seq, step, ready_ns, agreed_ns, late, wait_ns) VALUES (?, ?, ?, ?, ?, ?, ?, NULL)") {
  }

  void add(Cycle cycle) {
    if (cycle.by_bits) {
      any_bits_ = true;
    } else {
      if (lists_.empty() && have_dropped()) said_as_lists(cycle);
      keep(lists_, cycle);
    }
    // what was not agreed on one way is on the other
    if (!cycles_.empty() && cycles_.back().by_bits != cycle.by_bits) cycles_.clear();
    keep(cycles_, std::move(cycle));
  }

  /// Another communicator, or all that was said has been done.
  void forget() {
    cycles_.clear();
    lists_.clear();
    any_bits_ = false;
  }

  /// Data is moved, or a barrier made: what the cycles since the last time led to. `steps`: by process. What no cache
  /// holds (a barrier, a reduce-scatter, a gather whose sizes changed) a rank asks for by a list once, and goes on in
  /// cycles by bits until all have: lists count whatever was said in bits between them. And where bits are told, lists
  /// are sent only if somebody asks: rank 0, if nobody else does.
  void end(int64_t comm, int64_t seq, const std::map<int64_t, std::optional<int64_t>>& steps) {
    if (cycles_.empty()) return;  // agreed on together with the last
    if (!cycles_.back().by_bits) cycles_ = std::move(lists_);
    const size_t last = cycles_.size() - 1;
    std::optional<int64_t> needed;
    if (cycles_[last].by_bits) {
      needed = cycles_[last].agreed_bits;
    } else {
      for (const Word& word : cycles_[last].words)
        if (word.far) needed = std::min(needed.value_or(*word.far), *word.far);
    }
    read_told(comm, seq);
    if (needed || !told_.empty()) write(comm, seq, last, needed.value_or(0), steps);
    forget();
  }

 private:
  static constexpr size_t kMaxWords = 1 << 22;

  /// Where nothing is moved for so long the beginning does not matter.
  static void keep(std::vector<Cycle>& cycles, Cycle cycle) {
    if (cycles.size() * cycle.words.size() >= kMaxWords)
      cycles.erase(cycles.begin(), cycles.begin() + (cycles.size() + 1) / 2);
    cycles.push_back(std::move(cycle));
  }

  /// In the last cycle by bits some rank no longer told what it had: Horovod drops from its cache what has waited for
  /// 60 s, and asks for it by lists.
  bool have_dropped() const {
    constexpr int64_t kFlags = 2;  // of status, which a rank clears that asks by a list
    if (cycles_.size() < 2 || !cycles_.back().by_bits) return false;
    for (const Word& word : cycles_.back().words) {
      const Word* before = cycles_[cycles_.size() - 2].of(word.process);
      if (before && before->far && word.far && *word.far < *before->far - kFlags) return true;
    }
    return false;
  }

  /// What was said by bits until the cache dropped it, as if it had been by lists like `first`, in which the ranks
  /// ask for it again.
  void said_as_lists(const Cycle& first) {
    const Cycle& full = cycles_[cycles_.size() - 2];
    std::optional<int64_t> least;
    for (const Word& word : full.words)
      if (word.far) least = std::min(least.value_or(*word.far), *word.far);
    for (const Cycle& cycle : cycles_) {
      Cycle list;
      list.asks = true;
      for (const Word& word : cycle.words) {
        const Word* asked = first.of(word.process);
        const Word* most = full.of(word.process);
        if (!asked || !most) continue;
        const bool as_far = &cycle == &cycles_.back() || word.far.value_or(-1) >= most->far.value_or(0);
        list.words.push_back(
            {word.process, word.enter_ns, asked->far ? std::optional(as_far ? *asked->far : 0) : std::nullopt});
        if (!asked->far && as_far && most->far > least) list.asks = false;  // rank 0, which sends no list
      }
      if (!list.words.empty()) lists_.push_back(std::move(list));
    }
  }

  /// Process and time, by rank: what a timeline of Horovod says. Only with rank 0, which heard the others.
  void read_told(int64_t comm, int64_t seq) {
    told_.clear();
    for (named_.bind(comm, seq, cycles_.back().words.front().process); named_.next();)
      if (!told_.empty() || named_.integer(2) == 0) told_.emplace_back(named_.integer(0), named_.integer(1));
    named_.reset();
  }

  /// The cycle in which rank 0 heard that the process was ready.
  std::optional<size_t> heard_in(int64_t process, size_t last) const {
    const auto told = std::find_if(told_.begin(), told_.end(), [&](const auto& t) { return t.first == process; });
    if (told == told_.end()) return std::nullopt;
    for (size_t i = last; i > 0; --i) {
      const Word* own = cycles_[i].of(told_.front().first);
      if (own && own->enter_ns <= told->second) return i;
    }
    return 0;
  }

  /// The first cycle in which lists were sent and only one that sends none can have asked: rank 0.
  std::optional<size_t> asked_alone_in(size_t last) const {
    if (!any_bits_ || cycles_[last].by_bits) return std::nullopt;
    for (size_t i = 0; i <= last; ++i)
      if (!cycles_[i].asks) return i;
    return std::nullopt;
  }

  size_t ready_in(int64_t process, size_t last, int64_t needed) const {
    size_t first = last;
    while (first > 0) {
      const Word* word = cycles_[first - 1].of(process);
      if (!word || word->far.value_or(-1) < needed) break;
      --first;
    }
    return first;
  }

  void write(int64_t comm, int64_t seq, size_t last, int64_t needed,
             const std::map<int64_t, std::optional<int64_t>>& steps) {
    size_t slowest = 0;
    std::vector<std::pair<const Word*, std::optional<size_t>>> ready;
    bool all_tell = true;
    for (const Word& word : cycles_[last].words) {
      std::optional<size_t> since = heard_in(word.process, last);
      if (!since) since = word.far ? ready_in(word.process, last, needed) : asked_alone_in(last);
      ready.emplace_back(&word, since);
      all_tell &= since.has_value();
      slowest = std::max(slowest, ready.back().second.value_or(0));
    }
    const size_t agreed = all_tell ? slowest : last;
    // of one clock: whoever entered the cycle of its readiness last, be it the same cycle
    const Word* last_ready = nullptr;
    for (const auto& [word, cycle] : ready) {
      const Word* own = cycles_[cycle.value_or(agreed)].of(word->process);
      if (own && (cycle || slowest < last) && (!last_ready || own->enter_ns > last_ready->enter_ns)) last_ready = own;
    }
    for (const auto& [word, cycle] : ready) {
      const Word* own = cycles_[cycle.value_or(agreed)].of(word->process);
      const Word* then = cycles_[agreed].of(word->process);
      if (!own || !then || !last_ready) continue;
      bool late = (cycle || slowest < last) &&
                  (one_clock_ ? own->enter_ns == last_ready->enter_ns : cycle.value_or(agreed) == agreed);
      int64_t ready_ns = own->enter_ns;
      // Nobody knows since when it was ready: it was blocked for the others at most since data was moved last.
      const Word* earliest = cycles_.front().of(word->process);
      if (!cycle && !late && earliest) ready_ns = earliest->enter_ns;
      const int64_t agreed_ns = std::max(ready_ns, one_clock_ ? last_ready->enter_ns : then->enter_ns);
      const auto step = steps.find(word->process);
      insert_.run(word->process, comm, seq, step == steps.end() ? std::nullopt : step->second, ready_ns, agreed_ns,
                  late ? 1 : 0);
    }
  }

  bool one_clock_;
  Query named_;
  Query insert_;
  std::vector<std::pair<int64_t, int64_t>> told_;  ///< of the data operation at hand
  std::vector<Cycle> cycles_;                      ///< since data was moved last, all by bits or all by lists
  std::vector<Cycle> lists_;                       ///< those by lists, also before others by bits
  bool any_bits_ = false;                          ///< were there such
};

/// Bytes of a request list without a request: the shortest that any rank ever sent.
int64_t empty_request(SQLite::Database& db) {
  Query row(db, R"(
    SELECT min(e.bytes)
    FROM coordination c
    JOIN event e ON e.id = c.event
    JOIN op o ON o.id = e.op
    JOIN datatype d ON d.id = e.datatype
    WHERE o.class = 'all_to_root' AND d.name = 'MPI_BYTE' AND e.bytes > 0)");
  return row.next() ? row.integer(0) : 0;
}

bool have_one_clock(const Catalog& catalog, const std::map<int64_t, BackgroundProcess>& background) {
  ClockSpread clocks;
  for (const auto& [process, how] : background) clocks.add(catalog.clock_of(catalog.process(process)));
  return clocks.sigma_ns() == 0.0;
}

constexpr size_t kMaxCycles = 10000;  // of which the median is taken

/// How far a rank had come by its last cycle.
struct Pending {
  int64_t at_ns = INT64_MIN;
  std::optional<int64_t> cycle_ns;         ///< begin of the last cycle in which it told something
  std::vector<int64_t> between_cycles_ns;  ///< of the first ones
  std::optional<int64_t> requested_bytes, ready_bits;
};

/// What the training thread did in its last second.
struct LastSecond {
  std::optional<std::string> thread, sleeps_in;
};
LastSecond last_second(SQLite::Database& db, int64_t process) {
  constexpr int64_t kSecondNs = 1'000'000'000;
  Query ends(db, R"(
    WITH newest AS (SELECT * FROM thread_sample WHERE process = ?1 ORDER BY at_ns DESC LIMIT 1)
    SELECT n.at_ns - o.at_ns, n.cpu_ns + coalesce(n.ready_ns, 0) - o.cpu_ns - coalesce(o.ready_ns, 0), n.spun_ns - o.spun_ns
    FROM newest n, thread_sample o
    WHERE o.process = ?1 AND o.at_ns <= n.at_ns - ?2
    ORDER BY o.at_ns DESC
    LIMIT 1)");
  ends.bind(process, kSecondNs);
  LastSecond found;
  if (!ends.next() || ends.integer(0) <= 0) return found;
  const TrainingState state = training_state(ends.real(1) / ends.real(0), ends.real(2) / ends.real(0));
  found.thread = name_of(state);
  if (state != TrainingState::kAsleep) return found;
  // Asked once a second: what is older is of another sleep.
  Query call(db, R"(
    SELECT sleeps_in
    FROM thread_sample
    WHERE process = ?1 AND sleeps_in IS NOT NULL AND at_ns >= (SELECT max(at_ns) FROM thread_sample WHERE process = ?1) - 2 * ?2
    ORDER BY at_ns DESC
    LIMIT 1)");
  call.bind(process, kSecondNs);
  if (call.next()) found.sleeps_in = call.text(0);
  return found;
}

void write_pending(SQLite::Database& db, const std::map<int64_t, Pending>& pending) {
  Query moved(db, R"(
    SELECT max(start_ns + duration_ns)
    FROM event
    WHERE process = ? AND kind = 1 AND seq IS NOT NULL AND comm IS NOT NULL AND id NOT IN (SELECT event FROM coordination))");
  Query insert(db, "INSERT INTO pending_negotiation VALUES (?, ?, ?, ?, ?, ?, ?)");
  Query cycle(db, "UPDATE background_process SET cycle_ns = ? WHERE process = ?");
  for (const auto& [process, last] : pending) {
    moved.bind(process).next();
    const LastSecond thread = last_second(db, process);
    if (!last.between_cycles_ns.empty()) {
      std::vector<int64_t> between_ns = last.between_cycles_ns;
      std::nth_element(between_ns.begin(), between_ns.begin() + static_cast<std::ptrdiff_t>(between_ns.size() / 2),
                       between_ns.end());
      cycle.run(between_ns[between_ns.size() / 2], process);
    }
    insert.run(process, last.at_ns, moved.maybe_integer(0), last.requested_bytes, last.ready_bits, thread.thread,
               thread.sleeps_in);
    moved.reset();
  }
}

/// Cycles, by communicator and number, whose outcome their thread moved elsewhere: by messages, or on communicators on
/// which nobody negotiates. Horovod's Adasum and its hierarchical operations do.
std::set<std::pair<int64_t, int64_t>> led_elsewhere(SQLite::Database& db) {
  Query moves(db, R"(
    SELECT e.process, e.thread, e.start_ns
    FROM event e
    JOIN background_process b ON b.process = e.process
    JOIN op o ON o.id = e.op
    WHERE e.kind = 1 AND e.thread IS NOT b.thread AND e.id NOT IN (SELECT event FROM coordination)
      AND (o.class IN ('send', 'receive', 'send_receive')
           OR (e.seq IS NOT NULL AND e.comm NOT IN (SELECT comm
                                                    FROM agreement
                                                    UNION
                                                    SELECT g.comm
                                                    FROM coordination c
                                                    JOIN event g ON g.id = c.event
                                                    JOIN op p ON p.id = g.op
                                                    WHERE p.class = 'all_to_root')))
    ORDER BY e.process, e.thread, e.start_ns)");
  std::set<std::pair<int64_t, int64_t>> found;
  if (!moves.next()) return found;
  const auto before = [](const Query& a, const Query& b) {
    return std::tuple(a.integer(0), a.integer(1), a.integer(2)) < std::tuple(b.integer(0), b.integer(1), b.integer(2));
  };
  Query tells(db, R"(
    SELECT e.process, e.thread, e.start_ns, e.comm, e.seq
    FROM coordination c
    JOIN event e ON e.id = c.event
    JOIN op o ON o.id = e.op
    WHERE o.class = 'all_to_root' OR EXISTS (SELECT 1 FROM agreement a WHERE a.process = e.process AND a.comm = e.comm AND a.seq = e.seq)
    ORDER BY e.process, e.thread, e.start_ns)");
  std::optional<std::array<int64_t, 4>> last;  // process, thread, communicator, number
  for (bool more = tells.next(), any = true; any; any = moves.next()) {
    for (; more && before(tells, moves); more = tells.next())
      last = {tells.integer(0), tells.integer(1), tells.integer(3), tells.integer(4)};
    if (last && (*last)[0] == moves.integer(0) && (*last)[1] == moves.integer(1)) found.emplace((*last)[2], (*last)[3]);
  }
  return found;
}

void find_readiness(SQLite::Database& db, const Catalog& catalog,
                    const std::map<int64_t, BackgroundProcess>& background) {
  const int64_t empty = empty_request(db);
  Negotiations negotiations(db, have_one_clock(catalog, background));
  Query rows(db, R"(
    SELECT e.comm, e.seq, e.process, e.op, e.start_ns, e.bytes, e.step, c.event IS NOT NULL, a.own_bits, a.agreed_bits, d.name = 'MPI_BYTE'
    FROM event e
    JOIN background_process b ON b.process = e.process
    LEFT JOIN coordination c ON c.event = e.id
    LEFT JOIN agreement a ON a.process = e.process AND a.comm = e.comm AND a.seq = e.seq
    LEFT JOIN datatype d ON d.id = e.datatype
    WHERE e.kind < 3 AND e.seq IS NOT NULL AND e.comm IS NOT NULL
    ORDER BY e.comm, e.seq, e.process)");
  RequestedBytes requested;  // by process
  std::map<int64_t, Pending> pending;
  int64_t comm = -1;
  using StepOfEach = std::map<int64_t, std::optional<int64_t>>;  // by process
  const auto end = [&](int64_t seq, const StepOfEach& steps) {
    negotiations.end(comm, seq, steps);
    requested.data_moved();
    for (const auto& [process, step] : steps)
      if (const auto sum = requested.sum(process)) pending[process].requested_bytes = sum;
  };
  const std::set<std::pair<int64_t, int64_t>> elsewhere = led_elsewhere(db);
  // a cycle of these, unless data is moved here as well before the next
  std::optional<std::pair<int64_t, StepOfEach>> to_end;
  const auto end_elsewhere = [&] {
    if (to_end) end(to_end->first, to_end->second);
    to_end.reset();
  };
  bool more = rows.next();
  while (more) {
    if (rows.integer(0) != comm) {
      end_elsewhere();
      comm = rows.integer(0);
      negotiations.forget();
      requested.clear();
    }
    const int64_t seq = rows.integer(1);
    const bool moves_data = rows.integer(7) == 0;
    const OpClass op_class = catalog.operation(rows.integer(3)).op_class;
    const bool gathers = op_class == OpClass::kAllToRoot;
    bool tells = false;
    Cycle cycle;
    StepOfEach steps;
    do {
      Word word{rows.integer(2), rows.integer(4), std::nullopt};
      if (!rows.is_null(8)) {
        cycle.by_bits = tells = true;
        cycle.agreed_bits = rows.integer(9);
        word.far = rows.integer(8);
        pending[word.process].ready_bits = word.far;
      } else if (gathers && rows.maybe_integer(10) == 1 && rows.integer(5) > 0) {
        tells = true;
        word.far = requested.add(word.process, rows.integer(5) - empty);
        cycle.asks |= rows.integer(5) > empty;
        pending[word.process].requested_bytes = word.far;
      }
      if (!moves_data) pending[word.process].at_ns = std::max(pending[word.process].at_ns, word.enter_ns);
      steps[word.process] = rows.maybe_integer(6);
      cycle.words.push_back(word);
      more = rows.next();
    } while (more && rows.integer(0) == comm && rows.integer(1) == seq);
    for (const Word& word : cycle.words) {
      if (!tells) break;
      Pending& told = pending[word.process];
      if (told.cycle_ns && told.between_cycles_ns.size() < kMaxCycles)
        told.between_cycles_ns.push_back(word.enter_ns - *told.cycle_ns);
      told.cycle_ns = word.enter_ns;
    }
    if (moves_data || op_class == OpClass::kBarrier) {
      to_end.reset();
      end(seq, steps);
    } else if (tells) {
      end_elsewhere();
      negotiations.add(std::move(cycle));
      if (elsewhere.contains({comm, seq})) to_end = {seq, std::move(steps)};
    }
  }
  end_elsewhere();
  write_pending(db, pending);
}

/// How long the ranks that were ready were blocked for those that were not.
void find_waits(SQLite::Database& db, const std::map<int64_t, BackgroundProcess>& background) {
  Query rows(db, "SELECT comm, seq, ready_ns, agreed_ns FROM negotiation WHERE process = ?");
  Query update(db, "UPDATE negotiation SET wait_ns = ?4 WHERE process = ?1 AND comm = ?2 AND seq = ?3");
  for (const auto& [process, how] : background) {
    if (!how.sampled) continue;
    const BusyTime busy = read_busy_time(db, process);
    std::vector<std::tuple<int64_t, int64_t, int64_t>> waits;
    for (rows.bind(process); rows.next();) {
      const Interval between{rows.integer(2), rows.integer(3)};
      if (busy.covers(between))
        waits.emplace_back(rows.integer(0), rows.integer(1), static_cast<int64_t>(busy.blocked_ns(between)));
    }
    rows.reset();
    for (const auto& [comm, seq, wait_ns] : waits) update.run(process, comm, seq, wait_ns);
  }
}

void find_blame(SQLite::Database& db, const Catalog& catalog) {
  struct Member {
    int64_t rank;
    std::optional<int64_t> step;
    bool late;
    int64_t wait_ns;
  };
  struct Sum {
    int64_t instances = 0, wait_ns = 0;
    double sigma_ns = 0;
  };
  // world, late, waiter: what the data operations themselves showed, first
  std::map<std::tuple<int64_t, int64_t, int64_t>, Sum> sums;
  Query known(db, "SELECT world, late, waiter, instances, wait_ns, sigma_ns FROM blame");
  while (known.next())
    sums[{known.integer(0), known.integer(1), known.integer(2)}] = {known.integer(3), known.integer(4), known.real(5)};
  known.reset();
  Query insert_late(
      db,
      "INSERT INTO late (world, step, rank, ties, wait_ns, longest_ns, instances, comm, message) VALUES (?, ?, ?, ?, ?, ?, 1, ?, 0)");
  Query rows(db, "SELECT comm, seq, process, step, late, wait_ns FROM negotiation ORDER BY comm, seq, process");
  bool more = rows.next();
  while (more) {
    const int64_t comm = rows.integer(0), seq = rows.integer(1), world = catalog.process(rows.integer(2)).world;
    std::vector<Member> members;
    int64_t ties = 0, longest_ns = 0;
    do {
      members.push_back(
          {catalog.process(rows.integer(2)).rank, rows.maybe_integer(3), rows.integer(4) != 0, rows.integer(5)});
      ties += members.back().late ? 1 : 0;
      if (!members.back().late) longest_ns = std::max(longest_ns, members.back().wait_ns);
      more = rows.next();
    } while (more && rows.integer(0) == comm && rows.integer(1) == seq);
    int64_t part = 0;
    for (const Member& late : members) {
      if (!late.late || longest_ns == 0) continue;
      int64_t blamed_ns = 0;
      for (const Member& waiter : members) {
        const int64_t share_ns = waiter.late ? 0 : share_of(waiter.wait_ns, ties, part);
        if (share_ns == 0) continue;
        blamed_ns += share_ns;
        Sum& sum = sums[{world, late.rank, waiter.rank}];
        ++sum.instances;
        sum.wait_ns += share_ns;
      }
      insert_late.run(world, late.step, late.rank, ties, blamed_ns, longest_ns, comm);
      ++part;
    }
  }
  rows.reset();
  db.exec("DELETE FROM blame");
  Query insert(db, "INSERT INTO blame (world, late, waiter, instances, wait_ns, sigma_ns) VALUES (?, ?, ?, ?, ?, ?)");
  for (const auto& [key, sum] : sums)
    insert.run(std::get<0>(key), std::get<1>(key), std::get<2>(key), sum.instances, sum.wait_ns, sum.sigma_ns);
}

}  // namespace

void analyze_negotiations(SQLite::Database& db, const Catalog& catalog,
                          const std::map<int64_t, BackgroundProcess>& background) {
  if (background.empty()) return;
  find_readiness(db, catalog, background);
  find_waits(db, background);
  find_blame(db, catalog);
}

}  // namespace ddl
