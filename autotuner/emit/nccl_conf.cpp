#include "autotuner/emit/format.h"

namespace ddl::tune {

/// NAME=value and nothing else: no blanks, no quotes; the job's environment wins over it.
Content emit_nccl_conf(const Emission& emission, const Format&) {
  Content content;
  content.text = plain_assignments(with_prefix(emission.environment, "NCCL_"), "", "=", content);
  note_unset(emission, "NCCL_", content);
  if (!content.changes && content.note.empty()) content.note = "parameters of NCCL stay as they are";
  return content;
}

}  // namespace ddl::tune
