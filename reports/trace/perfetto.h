// A run as a trace for Perfetto (ui.perfetto.dev, trace_processor): a process per rank, with tracks of what docs/how-to/export.md lists.
#pragma once

#include "reports/csv.h"
#include "reports/trace/selection.h"

namespace ddl::reports {

/// In pieces, as it reads: memory is that of names, tracks and steps, not of events. Times are exact. Makes temporary tables in the
/// connection. Throws ddl::Error as select_processes() does.
void write_perfetto(const RunView& run, const TraceRequest& request, const Sink& sink, const TraceProgress& progress);

}  // namespace ddl::reports
