#pragma once

#include <cstdint>

#include "ddl/annotate.h"

/*
 * What the trainer tells a profiler of itself. With --no-marks it tells nothing, as most jobs do: steps have to be found without.
 */
namespace ddl::train::marks {

inline bool wanted = true;

inline void begin_step(uint64_t step) {
  if (wanted) ddl_step_begin(step);
}
inline void end_step() {
  if (wanted) ddl_step_end();
}
inline void value(const char* name, double number) {
  if (wanted) ddl_value(name, number);
}

/** A phase range of the profile for the length of a scope. */
class Phase {
 public:
  explicit Phase(const char* name) {
    if (wanted) ddl_phase_begin(name);
  }
  ~Phase() {
    if (wanted) ddl_phase_end();
  }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
};

/** A layer range of the profile for the length of a scope. */
class Layer {
 public:
  explicit Layer(const char* name) {
    if (wanted) ddl_layer_begin(name);
  }
  ~Layer() {
    if (wanted) ddl_layer_end();
  }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
};

}  // namespace ddl::train::marks
