// PostgreSQL by libpqxx. Errors of the server never hold the URL, and so no password.
#include "history/postgres/postgres.h"

#include <pqxx/pqxx>

#include "core/error.h"

namespace ddl::history {
namespace {

// "ddlh" in ASCII: of all advisory locks of the database, ours.
constexpr const char* kLock = "SELECT pg_advisory_xact_lock(1684302952)";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

template <class Do>
auto checked(Do what) {
  try {
    return what();
  } catch (const pqxx::broken_connection& error) {
    throw Error("PostgreSQL: " + first_line(error.what()),
                "is the server up, and may this user connect? Passwords are read from ~/.pgpass");
  } catch (const std::exception& error) {
    throw Error("PostgreSQL: " + first_line(error.what()));
  }
}

class Postgres : public Connection {
 public:
  explicit Postgres(const std::string& url) : connection_(url) {
    connection_.set_client_encoding("UTF8");
    pqxx::nontransaction work(connection_);
    work.exec("SET statement_timeout = " + std::to_string(kPatienceMs));
    work.exec("SET client_min_messages = warning");
  }

  std::vector<Cells> run(const std::string& sql, const Cells& values) override {
    return checked([&] {
      std::vector<const char*> texts;
      for (const Cell& value : values) texts.push_back(value ? value->c_str() : nullptr);
      const auto execute = [&](pqxx::transaction_base& work) {
        return work.exec_params(sql, pqxx::prepare::make_dynamic_params(texts));
      };
      pqxx::result result;
      if (work_) {
        result = execute(*work_);
      } else {
        pqxx::nontransaction work(connection_);
        result = execute(work);
      }
      std::vector<Cells> rows;
      for (const auto& row : result) {
        Cells& cells = rows.emplace_back();
        for (const auto& field : row)
          cells.push_back(field.is_null() ? Cell() : Cell(std::string(field.c_str(), field.size())));
      }
      return rows;
    });
  }

  void begin(bool exclusive) override {
    checked([&] {
      work_ = std::make_unique<pqxx::work>(connection_);
      if (exclusive) work_->exec(kLock);
    });
  }
  void commit() override {
    checked([&] { work_->commit(); });
    work_.reset();
  }
  void rollback() noexcept override { work_.reset(); }

  /// Asks the catalog's table: to_regclass() goes by a cache that does not know yet what somebody else made a moment
  /// ago.
  bool has_schema() override {
    return !run("SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'ddl_schema' AND pg_catalog.pg_table_is_visible(oid)",
                {})
                .empty();
  }
  void make_schema(const std::string& sql) override {
    checked([&] { work_->exec(sql); });
  }

 private:
  pqxx::connection connection_;
  std::unique_ptr<pqxx::work> work_;  ///< the transaction that is open
};

}  // namespace
}  // namespace ddl::history

extern "C" __attribute__((visibility("default"))) ddl::history::Connection* ddl_open_postgres(const std::string& url) {
  return ddl::history::checked([&] { return new ddl::history::Postgres(url); });
}
