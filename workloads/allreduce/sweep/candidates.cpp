#include "workloads/allreduce/sweep/candidates.h"

#include <algorithm>
#include <memory>

#include "workloads/allreduce/allreduce.h"

namespace ddl::allreduce {

namespace {

const std::string kOpenMpiPrefix = "openmpi:";

class Maker {
 public:
  Maker(const Options& options, const Topology& topology, OpenMpi& openmpi, std::vector<std::string>& comments)
      : options_(options), topology_(topology), openmpi_(openmpi), comments_(comments) {
    add("default", 0, Communicator(MPI_COMM_WORLD));
    add("default_again", 0, Communicator(MPI_COMM_WORLD));
  }

  void add_named(const std::string& word) {
    if (word == "default" || word == "default_again") return;  // always there
    if (word == "all" || word == "openmpi") add_openmpi("");
    if (word == "all" || word == "own") {
      for (const Algorithm& algorithm : algorithms())
        if (!algorithm.preset) add_own(std::string(algorithm.name));
    }
    if (word == "all" || word == "openmpi" || word == "own") return;
    if (word.starts_with(kOpenMpiPrefix)) {
      add_openmpi(word.substr(kOpenMpiPrefix.size()));
    } else {
      add_own(word);
    }
  }

  std::vector<Candidate> take() { return std::move(candidates_); }

 private:
  bool known(const std::string& name, std::size_t segment_bytes) const {
    return std::any_of(candidates_.begin(), candidates_.end(),
                       [&](const Candidate& c) { return c.name == name && c.segment_bytes == segment_bytes; });
  }

  void add(const std::string& name, std::size_t segment_bytes, Communicator communicator) {
    auto shared = std::make_shared<Communicator>(std::move(communicator));
    candidates_.push_back({name, segment_bytes, [shared](const float* send, float* receive, int count) {
                             MPI_Allreduce(send, receive, count, MPI_FLOAT, MPI_SUM, shared->get());
                           }});
  }

  /** One of Open MPI's by its name; all of them: no name. */
  void add_openmpi(const std::string& wanted) {
    if (!openmpi_.missing().empty()) {
      const std::string comment = "no algorithm of Open MPI: " + openmpi_.missing();
      if (std::find(comments_.begin(), comments_.end(), comment) == comments_.end()) comments_.push_back(comment);
      return;
    }
    std::string names;
    for (const ControlVariable::Value& algorithm : openmpi_.algorithms()) {
      names.append(names.empty() ? "" : ", ").append(algorithm.name);
      if (!wanted.empty() && algorithm.name != wanted) continue;
      const bool segmented = algorithm.name.find("segmented") != std::string::npos;
      for (const std::size_t segment : segmented ? options_.segments : std::vector<std::size_t>{0}) {
        if (!known(kOpenMpiPrefix + algorithm.name, segment)) {
          add(kOpenMpiPrefix + algorithm.name, segment, openmpi_.bound_to(algorithm, segment));
        }
      }
      if (!wanted.empty()) return;
    }
    if (!wanted.empty()) throw UsageError("--algorithms: '" + kOpenMpiPrefix + wanted + "': Open MPI has " + names);
  }

  void add_own(const std::string& word) {
    try {
      const Choice choice = parse_choice(word);
      if (choice.algorithm->takes_segment) {
        for (const std::size_t segment : options_.segments) add_own(parse_choice(word, segment));
      } else if (choice.algorithm->takes_dimensions && choice.dimensions.empty()) {
        for (std::vector<int>& dimensions : ordered_factorisations(topology_.ranks())) {
          if (dimensions.size() == 2) add_own(Choice{choice.algorithm, 0, std::move(dimensions)});
        }
      } else {
        add_own(choice);
      }
    } catch (const std::invalid_argument& error) {
      throw UsageError(std::string("--algorithms: ") + error.what());
    }
  }

  void add_own(Choice choice) {
    if (known(choice.name(), choice.segment_bytes)) return;
    auto allreduce = std::make_shared<Allreduce>(MPI_COMM_WORLD, std::move(choice), topology_);
    candidates_.push_back({allreduce->choice().name(), allreduce->choice().segment_bytes,
                           [allreduce](const float* send, float* receive, int count) {
                             (*allreduce)(send, receive, count, MPI_FLOAT, MPI_SUM);
                           }});
  }

  const Options& options_;
  const Topology& topology_;
  OpenMpi& openmpi_;
  std::vector<std::string>& comments_;
  std::vector<Candidate> candidates_;
};

}  // namespace

std::vector<Candidate> make_candidates(const Options& options, const Topology& topology, OpenMpi& openmpi,
                                       std::vector<std::string>& comments) {
  Maker maker(options, topology, openmpi, comments);
  for (const std::string& word : options.algorithms) maker.add_named(word);
  std::vector<Candidate> candidates = maker.take();
  const bool forced = std::any_of(candidates.begin(), candidates.end(),
                                  [](const Candidate& c) { return c.name.starts_with(kOpenMpiPrefix); });
  if (forced && !openmpi.caveat().empty()) comments.push_back(openmpi.caveat());
  return candidates;
}

}  // namespace ddl::allreduce
