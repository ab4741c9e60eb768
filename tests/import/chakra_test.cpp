// Chakra execution traces; that what ddl exports comes back is test export.chakra.
#include <gtest/gtest.h>

#include "store/import/chakra_types.h"
#include "tests/import/imported.h"
#include "tests/import/samples.h"

namespace ddl::test {
namespace {

TEST(Chakra, ReadsStepsKernelsCallsAndOperators) {
  const std::string trace = chakra_trace();
  Imported run("chakra", Imported::Files{{"job.0.et", trace}, {"job.1.et", trace}}, true);
  EXPECT_EQ(run.summary.ranks, 2u);
  EXPECT_EQ(
      run.text("SELECT group_concat(step || ':' || start_ns || '+' || duration_ns, ' ') FROM v_step WHERE rank = 0"),
      "1:0+610000 2:1000000+610000");
  EXPECT_EQ(run.integer("SELECT sum(duration_ns) FROM v_kernel WHERE rank = 0 AND name = 'gemm'"), 600000);
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(n, ' ') FROM (SELECT op || '/' || count(*) || '/' || min(payload_bytes) AS n FROM v_collective WHERE rank = 1 GROUP BY op"
          " ORDER BY op)"),
      "MPI_Allreduce/2/8 ncclAllReduce/2/4096");
  EXPECT_EQ(run.text("SELECT group_concat(DISTINCT label) FROM communicator WHERE size = 2 AND label LIKE 'group%'"),
            "group 3,group 3#2");
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM event e JOIN op o ON o.id = e.op WHERE o.name = 'MPI_Send' AND e.peer = 0 AND e.tag = 5 AND e.bytes = 64"),
      4);
  EXPECT_EQ(run.text("SELECT count || ': ' || note FROM loss WHERE kind = 'not_understood'"),
            "4: nodes of other kinds than computing and communication: left out");
}

TEST(Chakra, RefusesWhatHasNoTimesAndWhatIsNone) {
  const std::string no_times = import_error("chakra", chakra_trace(false), "job.0.et");
  EXPECT_NE(no_times.find("nodes without times"), std::string::npos) << no_times;
  EXPECT_NE(no_times.find("import the Kineto trace"), std::string::npos);
  EXPECT_NE(import_error("chakra", "{\n  \"schema\": \"1.1.1-chakra.0.0.4\", \"nodes\": []}", "et.json")
                .find("JSON, not protocol buffers"),
            std::string::npos);
  EXPECT_NE(import_error("chakra", "\x05hello", "job.0.et").find(", byte 0"), std::string::npos);
  const std::string trace = chakra_trace();
  EXPECT_NE(
      import_error("chakra", trace.substr(0, trace.size() - 3), "job.0.et").find("the file ends inside a message"),
      std::string::npos);
}

TEST(Chakra, TypesAreNamedLikeTheirOperations) {
  EXPECT_EQ(chakra::collective_type("MPI_Iallreduce"), 0);
  EXPECT_EQ(chakra::collective_type("MPI_Allgatherv_init"), 2);
  EXPECT_EQ(chakra::collective_type("ncclBroadcast"), 5);
  EXPECT_EQ(chakra::collective_type("MPI_Ialltoallw_c"), 6);
  EXPECT_EQ(chakra::collective_type("MPI_Reduce_scatter"), 7);
  EXPECT_EQ(chakra::collective_type("MPI_Reduce_scatter_block"), 8);
  EXPECT_EQ(chakra::collective_type("MPI_Scan"), std::nullopt);
  EXPECT_EQ(chakra::collective_type("MPI_Send"), std::nullopt);
}

}  // namespace
}  // namespace ddl::test
