#include "autotuner/emit/format.h"

namespace ddl::tune {

Content emit_mca_params(const Emission& emission, const Format&) {
  Content content;
  content.text = plain_assignments(with_prefix(emission.environment, "OMPI_MCA_"), "OMPI_MCA_", " = ", content);
  if (!emission.tuned.allreduce_rules.empty())
    content.text =
        "# coll_han_priority: on several nodes Open MPI 5 would put HAN before the algorithms chosen here, for all collectives.\n" +
        content.text;
  note_unset(emission, "OMPI_MCA_", content);
  if (!content.changes && content.note.empty()) content.note = "parameters of Open MPI stay as they are";
  return content;
}

}  // namespace ddl::tune
