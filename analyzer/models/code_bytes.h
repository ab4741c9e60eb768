// What a rank sends to add up the gradients of a layer, by code: the codes of `train --compress` (workloads/README.md
// has their bytes), and sufficient factors. Coding takes time that is not in it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddl::models {

struct GradientLayer {
  std::string name;
  double values = 0;                    ///< gradients
  std::optional<double> factor_values;  ///< of a dense layer: inputs and outputs together, of one sample
};

struct CodedLayer {
  std::string code;
  double sent_bytes = 0;  ///< by a rank
  bool lossless = false;
};

/// `ratio`: the share that top-k codes send. For p ranks and n values:
///
///   none              2 (p-1)/p 4n, a ring
///   fp16, q8, q4, ternary, onebit   2 (p-1) codes of n/p values
///   topk, top16_q4    p-1 codes of n values, to all others
///   sparcml           lg p rounds of streams, 4 bytes and 8 an entry, 4n at most; at worst ranks have no entry in
///                     common
///   factors           (p-1) 4 B (in + out): inputs and the gradients of outputs of the B samples of a rank, to all
///                     others (Xie et al., UAI 2016); dense layers, if `samples` is known
std::vector<CodedLayer> coded_bytes(const GradientLayer& layer, double ranks, double ratio,
                                    std::optional<double> samples);

}  // namespace ddl::models
