// Builders: from an analyzed run to a Document. To add a section: a function that returns its Table, and a row in sections.cpp.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/metrics/metrics.h"
#include "reports/document.h"
#include "reports/run_view.h"

namespace ddl {
class Query;
}

namespace ddl::reports {

/// `ddl report`: everything on one screen, tables cut to their first rows.
Document build_overview(const RunView& run, const std::string& source);

/// `ddl report --json`: the same with whole tables, and those that the overview leaves out.
Document build_everything(const RunView& run, const std::string& source);

/// Its JSON, written as it is made, in pieces. `rows_by_rank`: how many rows of tables that have one for each rank, or pair of ranks.
void write_everything(const RunView& run, const std::string& source, size_t rows_by_rank, const std::function<void(std::string_view)>& out);

/// `ddl report --html`: between the two, tables cut where they would make a page of a thousand ranks heavy.
Document build_page(const RunView& run, const std::string& source);

/// One section. `name`: as find_section().
Document build_section(const RunView& run, std::string_view name);

struct Section {
  const char* name;
  const char* summary;
  Table (*build)(const RunView& run);  ///< null: not a table
  size_t rows_in_overview;             ///< 0: not in the overview
  bool by_rank = false;                ///< a row for each rank, process, or pair of ranks
  bool alone = false;                  ///< only where it is asked for by name: it goes through all events
};
std::span<const Section> sections();

/// By its name, also one with hyphens for its underscores; null: there is none.
const Section* find_section(std::string_view name);

/// A row more of `table`: into it, or to RunView::each_row; beyond RunView::rows_wanted it is counted in Table::left_out.
void add_row(const RunView& run, Table& table, std::vector<Value> cells);

/// What a column of the query says, in `unit`; NULL: absent, for the reason `why`.
Value cell(const Query& row, int column, Unit unit, const std::string& why = "NO_DATA");

/// A row of a query that selects what the columns of the table say, in their order. `why`: for columns of which the row says why they are NULL.
std::vector<Value> cells(const Query& row, const Table& table, const std::string& why = "NO_DATA");

// The parts.
/// What the job is called: by its user, else after its program, behind python after its script.
std::string job_name(const RunView& run);
void add_header(const RunView& run, const std::string& source, Document& document);
void add_findings(const RunView& run, Document& document);
void add_metrics(const RunView& run, Document& document);
void add_loss(const RunView& run, Document& document);
void add_numbers(const RunView& run, Document& document);

Table collectives_table(const RunView& run);
/// Rows of collectives_table() that differ in the number of their communicator only (dp#0, dp#1, ...) as one row with their spread, the worst
/// by name: sums, the least and the largest time, and the median bandwidth.
void merge_like_groups(Table& collectives);
Table axes_table(const RunView& run);
Table axis_blame_table(const RunView& run);
Table traffic_table(const RunView& run);
Table calls_table(const RunView& run);
Table layers_table(const RunView& run);
Table counters_table(const RunView& run);
Table gpu_table(const RunView& run);
Table memory_table(const RunView& run);
Table critical_path_table(const RunView& run);
Table what_if_table(const RunView& run);
Table launches_table(const RunView& run);
Table durations_table(const RunView& run);
Table queue_table(const RunView& run);
Table sequences_table(const RunView& run);
Table gpu_layers_table(const RunView& run);
Table gpus_table(const RunView& run);
Table links_table(const RunView& run);
Table ranks_table(const RunView& run);
Table processes_table(const RunView& run);
Table blame_table(const RunView& run);
Table steps_table(const RunView& run);
Table metrics_table(const RunView& run);
/// A metric that is not part of ddl: its value, and that of each rank if it has one.
std::vector<Table> tried_metric(const ddl::Metric& metric, const MetricResult& result);
/// A metric in words: id, name, unit, which way is better, scope and source in a line, then its sentence.
std::string describe_metric(const ddl::Metric& metric);
Table loss_table(const RunView& run);
Table open_calls_table(const RunView& run);
Table stalls_table(const RunView& run);
Table stacks_table(const RunView& run);
Table hang_table(const RunView& run);
Table hang_stacks_table(const RunView& run);

}  // namespace ddl::reports
