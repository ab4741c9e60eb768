// Names and colours of the parts of a step, in drawing order.
#pragma once

#include "analyzer/facts.h"

namespace ddl::reports::html {

struct Category {
  const char* name;
  const char* css;  ///< class in style.css
  const char* key;  ///< column of the data table
  double TimeParts::*part;
};
inline constexpr Category kCategories[] = {{"compute", "c0", "compute_ns", &TimeParts::compute_ns},
                                           {"compute and communication", "c1", "overlap_ns", &TimeParts::overlap_ns},
                                           {"exposed transfer", "c2", "transfer_ns", &TimeParts::transfer_ns},
                                           {"waiting for others", "c3", "wait_ns", &TimeParts::wait_ns},
                                           {"exposed, waiting not known", "c4", "unsplit_ns", &TimeParts::unsplit_ns},
                                           {"exposed copies", "c5", "copy_ns", &TimeParts::copy_ns},
                                           {"idle", "c6", "idle_ns", &TimeParts::idle_ns}};

}  // namespace ddl::reports::html
