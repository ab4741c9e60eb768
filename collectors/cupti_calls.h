// Functions of CUDA that give the device work, mark its progress, or wait for it, by the numbers of CUPTI's
// callbacks. tests/collectors/cupti_calls.py compares the table with the names in CUPTI's headers where they are.
// Numbers are never reused.
#pragma once

#include "collectors/cupti_abi.h"
#include "core/format.h"

namespace ddl::cupti {

struct CallRange {
  uint16_t first, last;
  LaunchKind kind;
};

constexpr LaunchKind kK = LaunchKind::kKernel, kC = LaunchKind::kCopy, kG = LaunchKind::kGraph,
                     kS = LaunchKind::kSynchronize, kE = LaunchKind::kEvent, kQ = LaunchKind::kQuery;

// clang-format off
constexpr CallRange kRuntimeCalls[] = {
    {13, 13, kK}, {31, 52, kC}, {126, 126, kS}, {131, 131, kS}, {135, 135, kE}, {137, 137, kS}, {138, 138, kQ}, {142, 145, kC}, {147, 147, kS}, {160, 163, kC}, {165, 165, kS},
    {211, 211, kK}, {213, 214, kK}, {215, 236, kC}, {239, 239, kS}, {242, 242, kE}, {243, 246, kC}, {247, 247, kS}, {249, 250, kC}, {252, 253, kC}, {269, 270, kK},
    {272, 272, kK}, {311, 312, kG}, {370, 371, kE}, {430, 431, kK}, {449, 450, kC}, {482, 485, kC}, {487, 488, kC}, {505, 506, kK}, {509, 512, kC}};
constexpr CallRange kDriverCalls[] = {
    {17, 17, kS}, {43, 43, kC}, {45, 45, kC}, {47, 47, kC}, {49, 49, kC}, {51, 51, kC}, {53, 58, kC}, {60, 60, kC}, {62, 62, kC}, {64, 64, kC},
    {66, 69, kC}, {71, 71, kC}, {73, 73, kC}, {75, 75, kC}, {77, 77, kC}, {79, 79, kC}, {81, 81, kC}, {115, 117, kK}, {119, 119, kE}, {120, 120, kQ}, {121, 121, kS}, {126, 126, kS},
    {216, 216, kC}, {218, 218, kC}, {220, 220, kC}, {222, 222, kC}, {224, 224, kC}, {226, 226, kC}, {248, 254, kC}, {276, 293, kC}, {295, 295, kS},
    {305, 306, kC}, {307, 307, kK}, {318, 321, kC}, {397, 416, kC}, {418, 433, kC}, {436, 436, kS}, {440, 440, kS}, {441, 441, kE}, {442, 442, kK}, {467, 468, kC},
    {477, 478, kK}, {480, 480, kK}, {514, 515, kG}, {587, 588, kE}, {652, 653, kK}, {716, 717, kC}, {776, 779, kC}, {784, 785, kC}, {796, 799, kC}, {800, 800, kS}};
// clang-format on

constexpr uint32_t kCallNumbers = 1024;

/// By domain and number; 0: not one of them.
struct CallKinds {
  uint8_t kind[2][kCallNumbers];
};
constexpr CallKinds make_call_kinds() {
  CallKinds kinds = {};
  for (const CallRange& range : kDriverCalls)
    for (uint32_t i = range.first; i <= range.last; ++i) kinds.kind[0][i] = static_cast<uint8_t>(range.kind);
  for (const CallRange& range : kRuntimeCalls)
    for (uint32_t i = range.first; i <= range.last; ++i) kinds.kind[1][i] = static_cast<uint8_t>(range.kind);
  return kinds;
}
constexpr CallKinds kCallKinds = make_call_kinds();

}  // namespace ddl::cupti
