// Builders: from an analyzed run to a Document. To add a section: a function that returns its Table, and a
// row in sections.cpp.
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

/// `ddl report --json`: the same with whole tables, including those that the overview leaves out.
Document build_everything(const RunView& run, const std::string& source);

/// The same as JSON, written in pieces as it is made. `rows_by_rank`: the limit for tables with a row for each
/// rank, or pair of ranks.
void write_everything(const RunView& run, const std::string& source, size_t rows_by_rank,
                      const std::function<void(std::string_view)>& out);

/// `ddl report --html`: in between, with tables cut where a page of a thousand ranks would be heavy.
Document build_page(const RunView& run, const std::string& source);

/// One section. `name`: as find_section().
Document build_section(const RunView& run, std::string_view name);

struct Section {
  const char* name;
  const char* summary;
  Table (*build)(const RunView& run);  ///< null: not a table
  size_t rows_in_overview;             ///< 0: not in the overview
  bool by_rank = false;                ///< a row for each rank, process, or pair of ranks
  bool alone = false;                  ///< by name only: it reads all events
};
std::span<const Section> sections();

/// By name, hyphens for underscores allowed; null: unknown.
const Section* find_section(std::string_view name);

/// Adds a row to `table`, or hands it to RunView::each_row; beyond RunView::rows_wanted it counts in Table::left_out.
void add_row(const RunView& run, Table& table, std::vector<Value> cells);

/// A query's column in `unit`; NULL: absent, for the reason `why`.
Value cell(const Query& row, int column, Unit unit, const std::string& why = "NO_DATA");

/// A row of a query that selects the table's columns in order. `why`: for columns whose NULL reason the row has.
std::vector<Value> cells(const Query& row, const Table& table, const std::string& why = "NO_DATA");

// The parts.
/// The job's name: given by its user, else its program's, behind python its script's.
std::string job_name(const RunView& run);
void add_header(const RunView& run, const std::string& source, Document& document);
void add_findings(const RunView& run, Document& document);
void add_metrics(const RunView& run, Document& document);
void add_loss(const RunView& run, Document& document);
void add_numbers(const RunView& run, Document& document);

Table collectives_table(const RunView& run);
/// Joins rows of collectives_table() that differ only in the number of their communicator (dp#0, dp#1, ...) into sums,
/// least and largest time and median bandwidth, with the spread and the worst communicator by name.
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
/// A metric from outside ddl: its value, and each rank's if it has them.
std::vector<Table> tried_metric(const ddl::Metric& metric, const MetricResult& result);
/// A metric in words: id, name, unit, better direction, scope and source in a line, then its sentence.
std::string describe_metric(const ddl::Metric& metric);
Table loss_table(const RunView& run);
Table open_calls_table(const RunView& run);
Table stalls_table(const RunView& run);
Table stacks_table(const RunView& run);
Table hang_table(const RunView& run);
Table hang_stacks_table(const RunView& run);

}  // namespace ddl::reports
