#include "reports/html/page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "analyzer/findings/finding.h"
#include "reports/format.h"
#include "reports/html/markup.h"

namespace ddl::reports::html {
namespace {

constexpr size_t kFindingsShown = 5;

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += between;
    text += shown_name(part);
  }
  return text;
}

const Value* fact(const Document& document, std::string_view key) {
  const auto found =
      std::find_if(document.facts.begin(), document.facts.end(), [&](const Fact& f) { return f.key == key; });
  return found == document.facts.end() || found->value.is_absent() ? nullptr : &found->value;
}

std::string date_of(const Document& document) {
  const Value* epoch = fact(document, "epoch_realtime_ns");
  if (epoch == nullptr) return {};
  const auto seconds = static_cast<time_t>(epoch->as_integer() / 1'000'000'000);
  tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return {};
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", parts);
}

// Numbers are right-aligned by the style sheet, words need a class.
bool is_words(const Column& column) { return column.unit == Unit::kText; }

constexpr size_t kMostOpenRows = 24;  // longer tables scroll within themselves

/// Right-aligned numbers, a box of its own that scrolls sideways, so that the page never does. `label`: what the table
/// holds, for readers who hear it and for the keyboard, which can scroll it.
void write_table(Markup& page, const Table& table, std::string_view label) {
  page.open("div", {{"class", table.rows.size() > kMostOpenRows ? "scroll tall" : "scroll"},
                    {"tabindex", "0"},
                    {"role", "region"},
                    {"aria-label", std::string(label)}});
  page.open("table").open("thead").open("tr");
  for (const Column& column : table.columns)
    if (column.keep > 0) page.element("th", {{"scope", "col"}, {"class", is_words(column) ? "w" : ""}}, column.title);
  page.close().close().open("tbody");
  for (const auto& row : table.rows) {
    page.open("tr");
    for (size_t c = 0; c < row.size(); ++c)
      if (table.columns[c].keep > 0)
        page.element("td", {{"class", is_words(table.columns[c]) ? "w" : ""}}, shown_name(table_text(row[c])));
    page.close();
  }
  page.close().close().close();
  if (!table.note.empty()) page.element("p", {{"class", "note"}}, table.note);
}

// The page, part by part, in the order of reading.
class Page {
 public:
  Page(const Document& document, const std::vector<Figure>& figures) : document_(document), figures_(figures) {}

  std::string render() {
    out_.raw("<!DOCTYPE html>\n").open("html", {{"lang", "en"}});
    head();
    out_.open("body");
    patterns();
    out_.element("a", {{"href", has_result() ? "#findings" : "#figures"}, {"class", "skip"}},
                 of_run()       ? "Skip to what to fix"
                 : has_result() ? "Skip to the result"
                                : "Skip to the figures");
    header();
    out_.open("main");
    alerts();
    findings();
    numbers();
    figures();
    tables();
    metrics();
    about();
    return out_.take() + "\n";
  }

 private:
  void head() {
    const std::string title = document_.headline.empty() ? "ddl report" : joined(document_.headline, ", ");
    out_.open("head")
        .leaf("meta", {{"charset", "utf-8"}})
        .leaf("meta",
              {{"http-equiv", "Content-Security-Policy"},
               {"content",
                fmt::format("default-src 'none'; style-src '{}'; base-uri 'none'; form-action 'none'", kStyleHash)}})
        .leaf("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}})
        .leaf("meta", {{"name", "color-scheme"}, {"content", "light dark"}})
        .leaf("meta", {{"name", "referrer"}, {"content", "no-referrer"}})
        .leaf("meta", {{"name", "generator"}, {"content", "ddl"}})
        .element("title", {}, title);
    out_.open("style").raw(kStyle).close().close();
  }

  void header() {
    out_.open("header");
    if (!document_.headline.empty()) {
      out_.element("h1", {}, shown_name(document_.headline.front()));
      out_.open("p", {{"class", "facts"}});
      for (size_t i = 1; i < document_.headline.size(); ++i) out_.element("span", {}, document_.headline[i]);
      if (const std::string date = date_of(document_); !date.empty()) out_.element("span", {}, date);
      out_.close();
    }
    out_.open("p", {{"class", "facts small"}});
    for (const std::string& part : document_.data) out_.element("span", {}, part);
    out_.element("span", {}, shown_name(document_.source)).close();
    out_.open("nav", {{"aria-label", "Parts of the report"}});
    if (has_result()) link("findings", result_title());
    if (!document_.lines.empty()) link("numbers", "Numbers");
    for (const Figure& figure : figures_) link(figure.id, figure.title);
    for (const Table& table : document_.tables) link(fmt::format("table-{}", table.id), first_words(table.caption));
    if (!document_.metrics.empty()) link("metrics", "All metrics");
    link("about", "About");
    out_.close().close();
  }

  // What tells the categories apart for those who see no colours, and on paper: style.css fills with these.
  void patterns() {
    out_.open("svg", {{"class", "defs"}, {"aria-hidden", "true"}, {"width", "0"}, {"height", "0"}}).open("defs");
    constexpr std::pair<const char*, const char*> kHatches[] = {
        {"1", "M0 3H6"},
        {"2", "M-1 1L1-1M0 6L6 0M5 7L7 5"},
        {"3", "M-1 5L1 7M0 0L6 6M5-1L7 1M-1 1L1-1M0 6L6 0M5 7L7 5"},
        {"4", "M3 0V6"},
        {"5", "M3 3h.1"}};
    for (const auto& [number, lines] : kHatches) {
      out_.open("pattern", {{"id", fmt::format("hatch{}", number)},
                            {"width", "6"},
                            {"height", "6"},
                            {"patternUnits", "userSpaceOnUse"}});
      out_.leaf("rect", {{"width", "6"}, {"height", "6"}, {"class", fmt::format("b{}", number)}});
      out_.leaf("path", {{"d", lines}, {"class", "hatch"}}).close();
    }
    out_.close().close();
  }

  static std::string first_words(const std::string& caption) {
    return caption.substr(0, caption.find_first_of(",.;:"));
  }

  void link(const std::string& id, std::string_view text) {
    out_.element("a", {{"href", fmt::format("#{}", id)}}, text);
  }

  void alerts() {
    if (document_.alerts.empty()) return;
    out_.open("section", {{"class", "alerts"}, {"role", "note"}, {"aria-label", "Alerts"}});
    for (const std::string& alert : document_.alerts) out_.element("p", {}, alert);
    out_.close();
  }

  const Figure* evidence_of(const std::string& finding) const {
    for (const FindingRow& row : finding_rows()) {
      if (row.id != finding || row.figure.empty()) continue;
      for (const Figure& figure : figures_)
        if (figure.id == row.figure || figure.id.starts_with(std::string(row.figure) + "-")) return &figure;
    }
    return nullptr;
  }

  void finding(size_t number, const Finding& finding) {
    out_.open("li", {{"id", fmt::format("finding-{}", number)}}).element("h3", {}, finding.sentence);
    out_.open("p", {{"class", "saving"}});
    if (finding.saving_ns)
      out_.open("span")
          .text(fmt::format("saves {}", words_of(finding.bound)))
          .element("strong", {}, short_duration(*finding.saving_ns))
          .text(" a " + document_.saving_per)
          .close();
    if (finding.share_ratio) {
      out_.open("span")
          .text(words_of(finding.bound))
          .element("strong", {}, percent_text(*finding.share_ratio))
          .text(fmt::format(" of the {} ", document_.saving_per));
      out_.element("meter",
                   {{"min", "0"},
                    {"max", "1"},
                    {"value", fmt::format("{:.4f}", *finding.share_ratio)},
                    {"aria-hidden", "true"}},
                   "")
          .close();
    }
    out_.open("span").text("how sure: ").element("strong", {}, finding.confidence).close().close();
    if (!finding.evidence.empty()) out_.element("p", {}, finding.evidence);
    if (const Figure* figure = evidence_of(finding.id)) {
      out_.open("p").text("See ");
      link(figure->id, figure->title);
      out_.close();
    }
    if (!finding.try_next.empty())
      out_.open("p", {{"class", "try"}}).element("strong", {}, "Try").text(" " + finding.try_next).close();
    out_.close();
  }

  // For a run: findings, or that there are none. For a tuning: its verdict. A table of scaling speaks for itself.
  bool of_run() const { return !document_.findings.empty() || !document_.no_finding.empty(); }
  bool has_result() const { return of_run() || !document_.verdict.empty(); }
  const char* result_title() const { return of_run() ? "What to fix" : "Result"; }

  void findings() {
    if (!has_result()) return;
    out_.open("section", {{"id", "findings"}}).element("h2", {}, result_title());
    if (document_.findings.empty() && !document_.no_finding.empty()) out_.element("p", {}, document_.no_finding);
    if (!document_.verdict.empty()) out_.open("p").element("strong", {}, "Verdict ").text(document_.verdict).close();
    const size_t shown = std::min(document_.findings.size(), kFindingsShown);
    if (shown > 0) out_.open("ol", {{"class", "findings"}});
    for (size_t i = 0; i < shown; ++i) finding(i + 1, document_.findings[i]);
    if (shown > 0) out_.close();
    if (shown < document_.findings.size()) {
      out_.open("details").element("summary", {}, fmt::format("{} more", document_.findings.size() - shown));
      out_.open("ol", {{"class", "findings"}, {"start", std::to_string(shown + 1)}});
      for (size_t i = shown; i < document_.findings.size(); ++i) finding(i + 1, document_.findings[i]);
      out_.close().close();
    }
    out_.close();
  }

  void numbers() {
    if (document_.lines.empty()) return;
    out_.open("section", {{"id", "numbers"}}).element("h2", {}, "Numbers").open("div", {{"class", "cards"}});
    for (const NumberLine& line : document_.lines) {
      out_.open("div", {{"class", "card"}}).element("h3", {}, line.title).open("dl");
      for (const NumberLine::Item& item : line.items) {
        // "35 steps", "551 samples/s": what follows the number names it.
        const bool noted = !item.name.empty() && !item.note.empty();
        out_.open("div").element("dt", {}, item.name.empty() ? item.note : item.name);
        out_.element("dd", {{"class", item.value.is_absent() ? "absent" : ""}},
                     noted ? fmt::format("{} {}", line_text(item.value), item.note) : line_text(item.value));
        out_.close();
      }
      out_.close();
      if (!line.remark.empty()) out_.element("p", {{"class", "note"}}, line.remark);
      out_.close();
    }
    out_.close().close();
  }

  void figures() {
    if (figures_.empty()) return;
    out_.open("section", {{"id", "figures"}, {"class", "figures"}, {"aria-label", "Figures"}});
    for (const Figure& figure : figures_) {
      out_.open("figure", {{"id", figure.id}})
          .element("h2", {}, figure.title)
          .element("figcaption", {}, figure.caption);
      out_.open("div", {{"class", "scroll drawing"},
                        {"tabindex", "0"},
                        {"role", "region"},
                        {"aria-label", figure.title + ": drawing"}});
      out_.raw(figure.svg).close();
      if (!figure.reading.empty()) out_.element("p", {{"class", "note"}}, figure.reading);
      out_.open("details").element("summary", {}, "The numbers as a table");
      write_table(out_, figure.data, figure.title + ": numbers");
      out_.close().close();
    }
    out_.close();
  }

  void tables() {
    for (const Table& table : document_.tables) {
      if (table.rows.empty()) continue;
      out_.open("section", {{"id", fmt::format("table-{}", table.id)}}).element("h2", {}, first_words(table.caption));
      if (table.caption != first_words(table.caption)) out_.element("p", {{"class", "note"}}, table.caption);
      write_table(out_, table, first_words(table.caption));
      out_.close();
    }
  }

  void metrics() {
    if (document_.metrics.empty()) return;
    out_.open("section", {{"id", "metrics"}}).element("h2", {}, "All metrics").open("details");
    out_.element("summary", {}, plural(static_cast<int64_t>(document_.metrics.size()), "metric"));
    Table table{
        .columns = {{"value", "Value", Unit::kNumber},
                    {"lo", "From", Unit::kNumber},
                    {"hi", "To", Unit::kNumber},
                    {"unit", "Unit", Unit::kText},
                    {"id", "Name", Unit::kText}},
        .note = "From and to: the 95% interval of the median over steps. What each one says: ddl analyze --list"};
    for (const Metric& metric : document_.metrics) {
      const auto number = [](const std::optional<double>& value, const std::string& why) {
        return value ? Value::number(*value) : Value::absent(Unit::kNumber, why);
      };
      table.rows.push_back({number(metric.value, metric.why), number(metric.lo, "NOT_APPLICABLE"),
                            number(metric.hi, "NOT_APPLICABLE"), Value::text(metric.unit), Value::text(metric.id)});
    }
    write_table(out_, table, "All metrics");
    out_.close().close();
  }

  void about() {
    out_.open("section", {{"id", "about"}}).element("h2", {}, "About this report");
    out_.element(
        "p", {},
        "Time inside a collective is two things: waiting for the last rank to arrive, and transferring. They are told apart "
        "everywhere: a slow "
        "network and a slow rank need different cures. n/a (why) is a number that is not known, never zero.");
    out_.open("dl", {{"class", "facts-list"}});
    for (const Fact& fact : document_.facts)
      if (!fact.value.is_absent()) {
        out_.open("div").element("dt", {}, fact.key).element("dd", {}, shown_name(table_text(fact.value))).close();
      }
    out_.close();
    if (!document_.more.empty()) {
      out_.element("p", {}, "More:").open("ul");
      for (const std::string& command : document_.more) out_.open("li").element("code", {}, command).close();
      out_.close();
    }
    out_.close();
  }

  const Document& document_;
  const std::vector<Figure>& figures_;
  Markup out_;
};

}  // namespace

std::vector<Figure> build_figures(const RunView& run) {
  std::vector<Figure> figures;
  for (const FigureKind& kind : figure_kinds())
    for (Figure& figure : kind.build(run)) figures.push_back(std::move(figure));
  return figures;
}

std::string render_page(const Document& document, const std::vector<Figure>& figures) {
  return Page(document, figures).render();
}

}  // namespace ddl::reports::html
