// Which set a GPU kernel belongs to, by its name alone (specification.md J5).
#include "store/ingest/gpu_names.h"

#include <algorithm>
#include <span>
#include <string>

namespace ddl::store {
namespace {

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

/// What the function is called, in lower case: without template arguments and parameters, which name types and other
/// kernels. "std::enable_if<(x)>::type internal::gemvx::kernel<int>(int)" is "std::enable_if::type
/// internal::gemvx::kernel".
std::string called(std::string_view name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  std::string result, open;  // open: brackets
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (open.empty() && name.substr(i, kAnonymous.size()) == kAnonymous) {
      i += kAnonymous.size() - 1;
    } else if (c == '(' || (c == '<' && !open.ends_with('('))) {
      open += c;
    } else if ((c == ')' && open.ends_with('(')) || (c == '>' && open.ends_with('<'))) {
      open.pop_back();
    } else if (open.empty()) {
      result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return result;
}

bool has_any(std::string_view text, std::span<const std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

/// At the begin of an identifier. In a mangled name a number is before it: "10ucc_reduce".
bool has_any_word(std::string_view text, std::span<const std::string_view> parts) {
  for (const std::string_view part : parts) {
    for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
      if (at == 0 || !is_word(text[at - 1]) || (text.starts_with("_z") && text[at - 1] <= '9')) return true;
  }
  return false;
}

// ------------------------------------------------------------------------------------------------------- communication

// Libraries whose kernels communicate, whatever else they are called, and parts of names that nobody else uses.
constexpr std::string_view kCommunication[] = {
    // Libraries; userbuffers is Transformer Engine's
    "nccl", "rccl", "hccl", "oneccl", "msccl", "nvshmem", "rocshmem", "deep_ep", "userbuffers",
    // PyTorch's symmetric memory
    "multimem_", "one_shot_", "two_shot_", "symm_mem", "symmetric_memory", "put_signal", "wait_signal",
    "stream_write_value",
    // vLLM, SGLang, aiter; TensorRT-LLM and FlashInfer
    "cross_device_reduce", "lamport", "moe_comm", "moea2a", "moe_a2a"};
constexpr std::string_view kCommunicationWords[] = {"ucc_", "ccl::", "ccl_", "barrier"};

// A kernel that computes beside it (allreduce and RMSNorm in one, moeAllToAll) is communication: it cannot end before
// the other ranks have come, so that whatever makes them late is in its time.
constexpr std::string_view kCollectiveWords[] = {"allreduce", "allgather", "reducescatter", "alltoall"};

// All that is reduced or gathered by these is within one GPU.
constexpr std::string_view kWithinGpu[] = {"warp", "wave", "block", "thread", "cta", "quad", "lane", "simd"};

bool names_collective(const std::string& name) {
  std::string plain = name;
  std::erase(plain, '_');
  for (const std::string_view collective : kCollectiveWords) {
    for (size_t at = plain.find(collective); at != std::string::npos; at = plain.find(collective, at + 1)) {
      const std::string_view before = std::string_view(plain).substr(0, at);
      if (std::none_of(std::begin(kWithinGpu), std::end(kWithinGpu),
                       [&](std::string_view own) { return before.ends_with(own); }))
        return true;
    }
  }
  return false;
}

bool communicates(const std::string& name) {
  // Inductor names a kernel after the operators that it fuses, those that only wait for a collective's result or
  // copy it among them.
  if (name.starts_with("triton_") && name.find("_fused") != std::string::npos) return false;
  // Counts which token goes where, before anything is sent.
  if (name.find("deep_ep::layout::") != std::string::npos) return false;
  return has_any(name, kCommunication) || has_any_word(name, kCommunicationWords) || names_collective(name);
}

// ----------------------------------------------------------------------------------------------------------- computing

// What could as well move data between GPUs (copy, send, gather, broadcast, push, exchange) is not among these words:
// such a name is left to the reader, unless a library's is in it.
constexpr std::string_view kComputing[] = {
    // Libraries, and generators of kernels
    "cutlass", "cudnn", "cublas", "xmma", "nvjet", "cask_", "magma", "cijk_", "rocblas", "hipblas", "miopen", "tensile",
    "composable_kernel", "ampere_", "volta_", "turing_", "maxwell_", "hopper_", "blackwell_", "triton_", "cufft",
    "cusparse", "cusolver", "curand", "rocprim", "transformer_engine", "deep_gemm", "flash_fwd", "flash_bwd", "fmha",
    "epilogue::", "fusion",
    // Linear algebra
    "gemm", "gemv", "matmul", "splitk", "split_k", "spmm", "trsm", "syrk", "axpy", "dot_kernel", "nrm2", "fft",
    // Convolutions
    "conv2d", "conv1d", "conv3d", "convolve", "convolution", "depthwise", "im2col", "col2im", "winograd", "wgrad",
    "dgrad", "fprop", "nchw", "nhwc", "pool_forward", "pool_backward", "pooling", "maxpool", "avgpool",
    // Layers
    "attention", "attn", "softmax", "layer_norm", "layernorm", "batch_norm", "batchnorm", "group_norm", "groupnorm",
    "rmsnorm", "rms_norm", "bn_fw", "bn_bw", "dropout", "relu", "gelu", "silu", "swiglu", "geglu", "sigmoid", "tanh",
    "activation", "rotary", "rope_", "embedding", "_embs", "cross_entropy", "nll_loss", "mse_", "mamba",
    "selective_scan", "fused_moe", "moe_align", "moe_sum", "cunn_", "topk", "top_k", "argmax", "sampling",
    // Optimizers
    "multi_tensor", "multitensor", "adam", "optimizer", "sgd",
    // Building blocks
    "elementwise", "element_wise", "reduce", "reduction", "transpose", "permute", "memset", "fill", "histogram",
    "radixsort", "radix_sort", "bitonic", "scan_kernel", "quantize", "quant_", "cast_kernel"};
constexpr std::string_view kComputingWords[] = {
    "at::",      "at_cuda_detail::", "c10::",  "caffe2::", "cub::", "hipcub::", "thrust::", "ck::",
    "ck_tile::", "flash::",          "apex::", "tvm",      "loop_", "wrapped_", "input_"};

/// cuBLAS and cuDNN: "sm80_xmma_fprop_...", "sm90_xmma_...".
bool is_of_architecture(std::string_view name) {
  return name.size() > 4 && name.starts_with("sm") && name[2] >= '0' && name[2] <= '9' && name.find('_') <= 6;
}

bool computes(std::string_view name) {
  return has_any(name, kComputing) || has_any_word(name, kComputingWords) || is_of_architecture(name) ||
         (name.starts_with("_z") && name.find("2at6native") != std::string_view::npos);
}

}  // namespace

const char* kernel_class(std::string_view name) {
  const std::string function = called(name);
  if (communicates(function)) return "communication";
  return computes(function) ? "compute" : "unclassified";
}

}  // namespace ddl::store
