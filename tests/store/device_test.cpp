// The ingest of what GPUs did, against spools that were put together record by record: the join with launches,
// captured graphs, clocks.
#include <gtest/gtest.h>

#include "store/ingest/gpu_facts.h"
#include "store/ingest/gpu_names.h"
#include "tests/store/store_fixture.h"
#include "tests/support/synthetic_run_spool.h"

namespace ddl {
namespace {

using test::SpoolBuilder;

constexpr uint64_t kBegin = 1000000;

class DeviceTest : public StoreTest {
 protected:
  DeviceTest() {
    spool_.header().begin = spool_.header().latest = {kBegin, kBegin, 5000000};
    spool_.header().rank = 0;
    spool_.header().world_size = 1;
    spool_.header().flags = kMpiInitialized | kMpiFinalized;
    spool_.string(1, "fc1");
    spool_.string(2, "fc2");
    spool_.string(3, "_Z4gemmIfEvPT_i");
    spool_.string(4, "relu");
    spool_.context({1, 0, static_cast<uint32_t>(ContextKind::kStep), 0, 0});
    spool_.context({2, 1, static_cast<uint32_t>(ContextKind::kLayer), 1, 0});
    spool_.context({3, 1, static_cast<uint32_t>(ContextKind::kLayer), 2, 0});
    CommunicatorMeta comm = {};
    comm.index = 1;
    comm.uid = 7;
    comm.size = 1;
    comm.flags = kCommWorld;
    spool_.communicator(comm, {});
    log_ = spool_.add_chunk(ChunkKind::kEvents);
    device_ = spool_.add_chunk(ChunkKind::kDevice);
  }
  void load() {
    std::filesystem::create_directories(folder());
    spool_.write(folder() / "n0.1.1.spool");
    ingest_again();
  }
  /// Moments are ns after the begin.
  void launch(uint32_t correlation, uint64_t at, uint64_t duration, uint32_t context, uint32_t comm = 0,
              uint32_t sequence = 0) {
    const uint64_t word = record_word(RecordKind::kLaunch, static_cast<uint32_t>(LaunchKind::kKernel), duration);
    spool_.append(log_, Record{kBegin + at, word, correlation, comm, context, sequence, -1});
  }
  void step(uint32_t number, uint64_t at, uint64_t duration) {
    spool_.append(log_, Record{kBegin + at, record_word(RecordKind::kStep, 1, duration), 0, 0, 1, number, -1});
  }
  static DeviceRecord record(DeviceKind kind, uint32_t correlation, uint64_t at, uint64_t duration) {
    DeviceRecord r = {};
    r.start = kBegin + at;
    r.end = kBegin + at + duration;
    r.what = device_what(kind, 0, 0, 0, 0);
    r.cuda_context = 1;
    r.stream = 7;
    r.correlation = correlation;
    r.context = kContextOfLaunch;
    return r;
  }
  static DeviceRecord kernel(uint32_t correlation, uint64_t at, uint64_t duration, uint32_t name) {
    DeviceRecord r = record(DeviceKind::kKernel, correlation, at, duration);
    r.name = name;
    return r;
  }
  static DeviceRecord copy(uint32_t correlation, uint64_t at, uint64_t duration, DeviceCopy kind, uint64_t bytes) {
    DeviceRecord r = record(DeviceKind::kMemcpy, correlation, at, duration);
    r.what = device_what(DeviceKind::kMemcpy, static_cast<uint32_t>(kind), static_cast<uint32_t>(DeviceMemory::kPinned),
                         static_cast<uint32_t>(DeviceMemory::kDevice), 0);
    r.bytes = bytes;
    return r;
  }

  SpoolBuilder spool_;
  size_t log_, device_;
};

TEST_F(DeviceTest, AKernelBelongsToTheLayerAndStepThatLaunchedIt) {
  // told before it was launched, as far as the file goes; runs after its step
  spool_.append_device(device_, kernel(12, 900, 50, 4));
  launch(11, 110, 5, 2);
  launch(12, 120, 6, 3);
  step(4, 100, 200);
  spool_.append_device(device_, kernel(11, 200, 100, 3));
  load();
  EXPECT_EQ(
      rows(
          "SELECT rank, step, layer, device, stream, name, start_ns, duration_ns, correlation, launch_ns, launch_duration_ns, thread "
          "FROM v_kernel ORDER BY start_ns"),
      (Rows{{"0", "4", "fc1", "0", "7", "void gemm<float>(float*, int)", "200", "100", "11", "110", "5", "0"},
            {"0", "4", "fc2", "0", "7", "relu", "900", "50", "12", "120", "6", "0"}}));
  EXPECT_EQ(number("SELECT end_ns FROM process"), 950);
  EXPECT_EQ(number("SELECT count(*) FROM loss"), 0);
}

TEST_F(DeviceTest, CopiesSayTheirDirectionAndMemory) {
  launch(1, 10, 5, 2);
  spool_.append_device(device_, copy(1, 100, 50, DeviceCopy::kHtoD, 4096));
  DeviceRecord peer = copy(1, 200, 60, DeviceCopy::kPtoP, 100);
  peer.name = 3;  // the device that receives
  spool_.append_device(device_, peer);
  DeviceRecord set = record(DeviceKind::kMemset, 1, 300, 10);
  set.what = device_what(DeviceKind::kMemset, 0, 0, static_cast<uint32_t>(DeviceMemory::kManaged), 0);
  set.bytes = 8;
  spool_.append_device(device_, set);
  load();
  EXPECT_EQ(
      rows(
          "SELECT rank, layer, kind, bytes, start_ns, duration_ns, source, destination, peer_device FROM v_memcpy ORDER BY event"),
      (Rows{{"0", "fc1", "HtoD", "4096", "100", "50", "pinned", "device", "NULL"},
            {"0", "fc1", "PtoP", "100", "200", "60", "pinned", "device", "3"},
            {"0", "fc1", "memset", "8", "300", "10", "NULL", "managed", "NULL"}}));
  EXPECT_EQ(rows("SELECT DISTINCT name FROM v_gpu ORDER BY 1"),
            (Rows{{"[CUDA memcpy HtoD]"}, {"[CUDA memcpy PtoP]"}, {"[CUDA memset]"}}));
}

TEST_F(DeviceTest, NodesOfAGraphBelongWhereTheyWereCaptured) {
  spool_.graph_node({100, 0, 3, 1, 9, 0});    // captured in fc2, inside an NCCL call
  spool_.graph_node({200, 100, 0, 0, 0, 0});  // instantiated
  spool_.graph_node({300, 200, 0, 0, 0, 0});  // and copied once more
  spool_.graph_node({401, 402, 0, 0, 0, 0});  // damage: in a circle
  spool_.graph_node({402, 401, 0, 0, 0, 0});
  launch(1, 110, 5, 2);
  step(4, 100, 50);
  for (const uint64_t node : {100, 300, 401}) {
    DeviceRecord r = kernel(1, 200 + node, 10, 4);
    r.graph_node = node;
    spool_.append_device(device_, r);
  }
  load();
  EXPECT_EQ(rows("SELECT step, layer, graph_node, comm, seq FROM v_kernel ORDER BY start_ns"),
            (Rows{{"4", "fc2", "100", "MPI_COMM_WORLD", "9"},
                  {"4", "fc2", "300", "MPI_COMM_WORLD", "9"},
                  {"4", "fc1", "401", "NULL", "NULL"}}));
}

TEST_F(DeviceTest, ALaunchInsideAnNcclCallNamesTheCollective) {
  launch(5, 10, 5, 2, 1, 42);
  launch(5, 11, 2, 2, 0, 0);  // the driver's function inside the runtime's, with the same number
  spool_.append_device(device_, kernel(5, 100, 10, 4));
  DeviceRecord own = record(DeviceKind::kCollective, 0, 100, 10);  // as NCCL itself tells it
  own.context = 3;
  own.comm = 1;
  own.sequence = 43;
  own.name = 4;
  spool_.append_device(device_, own);
  load();
  EXPECT_EQ(rows("SELECT comm, seq, launch_ns FROM v_kernel"), (Rows{{"MPI_COMM_WORLD", "42", "10"}}));
  EXPECT_EQ(rows("SELECT kind, layer FROM v_gpu WHERE kind = 'collective'"), (Rows{{"collective", "fc2"}}));
}

TEST_F(DeviceTest, WithoutItsLaunchAnActivityIsOutsideEveryLayerAndCounted) {
  step(4, 100, 200);
  spool_.append_device(device_, kernel(77, 150, 10, 4));
  DeviceRecord overhead = record(DeviceKind::kOverhead, 0, 160, 5);
  overhead.what = device_what(DeviceKind::kOverhead, 1, 0, 0, 0);
  spool_.append_device(device_, overhead);
  load();
  EXPECT_EQ(rows("SELECT step, layer, launch_ns FROM v_kernel"), (Rows{{"4", "NULL", "NULL"}}));
  EXPECT_EQ(rows("SELECT kind, count FROM loss"), (Rows{{"gpu_launches", "1"}}));
  EXPECT_EQ(rows("SELECT name, device, stream FROM v_gpu WHERE kind = 'overhead'"),
            (Rows{{"[CUPTI overhead: buffer flush]", "NULL", "NULL"}}));
}

TEST_F(DeviceTest, AnotherClockIsTiedToOurs) {
  spool_.device_clock({kBegin + 1000, 5000000});
  spool_.device_clock({kBegin + 3000, 5001000});  // ours runs twice as fast in between
  for (const uint64_t device_ns : {4999900, 5000500, 5001100}) {
    DeviceRecord r = kernel(0, 0, 0, 4);
    r.start = device_ns;
    r.end = device_ns + 10;
    r.what = device_what(DeviceKind::kKernel, 0, 0, 0, kDeviceTime);
    spool_.append_device(device_, r);
  }
  load();
  EXPECT_EQ(rows("SELECT start_ns, duration_ns FROM v_kernel ORDER BY start_ns"),
            (Rows{{"900", "10"}, {"2000", "20"}, {"3100", "10"}}));
}

TEST_F(DeviceTest, ClocksThatNothingTiesAreCounted) {
  DeviceRecord r = kernel(0, 0, 10, 4);
  r.what = device_what(DeviceKind::kKernel, 0, 0, 0, kDeviceTime);
  spool_.append_device(device_, r);
  load();
  EXPECT_EQ(number("SELECT count(*) FROM gpu_event"), 0);
  EXPECT_EQ(rows("SELECT kind, count FROM loss"), (Rows{{"gpu_clock", "1"}}));
}

TEST_F(DeviceTest, DamagedRecordsAreLeftOut) {
  DeviceRecord backwards = kernel(0, 100, 10, 4);
  std::swap(backwards.start, backwards.end);
  spool_.append_device(device_, backwards);
  DeviceRecord unknown = kernel(0, 100, 10, 4);
  unknown.what = 0x99;
  spool_.append_device(device_, unknown);
  spool_.append_device(device_, copy(0, 100, 10, DeviceCopy::kHtoD, UINT64_MAX));
  spool_.append_device(device_, kernel(0, 100, 10, 4));
  load();
  EXPECT_EQ(number("SELECT count(*) FROM gpu_event"), 1);
  EXPECT_EQ(number("SELECT count FROM loss WHERE kind = 'torn_spool'"), 3 * 64);
}

TEST_F(DeviceTest, StreamsThatWaitFindTheRecordingOfTheEvent) {
  const auto event = [&](DeviceKind kind, uint16_t context, uint32_t stream, uint32_t correlation, uint32_t id,
                         uint64_t recording) {
    DeviceRecord r = record(kind, correlation, 100, 0);
    r.what = device_what(kind, kind == DeviceKind::kSynchronize ? 2 : 0, 0, 0, 0);
    r.end += 1;
    r.cuda_context = context;
    r.stream = stream;
    r.name = id;
    r.graph_node = recording;
    spool_.append_device(device_, r);
  };
  event(DeviceKind::kSynchronize, 1, 20, 15, 5, 0);  // told before what it waits for, as buffers come
  event(DeviceKind::kEvent, 1, 10, 11, 5, 0);
  event(DeviceKind::kEvent, 1, 11, 14, 5, 0);        // the same event once more: the latest counts
  event(DeviceKind::kEvent, 1, 12, 16, 5, 0);        // after the wait
  event(DeviceKind::kEvent, 2, 13, 14, 5, 0);        // another context's event of that number
  event(DeviceKind::kSynchronize, 1, 21, 30, 6, 0);  // an event that nobody recorded
  event(DeviceKind::kEvent, 2, 14, 31, 7, 900);      // numbered recordings are found across contexts
  event(DeviceKind::kEvent, 2, 15, 32, 7, 901);
  event(DeviceKind::kSynchronize, 1, 22, 33, 7, 900);
  event(DeviceKind::kSynchronize, 1, 23, 34, 7, 999);
  load();
  EXPECT_EQ(
      rows(
          "SELECT context, stream, correlation, on_context, on_stream, on_correlation FROM stream_wait ORDER BY correlation"),
      (Rows{{"1", "20", "15", "1", "11", "14"}, {"1", "22", "33", "2", "14", "31"}}));
  EXPECT_EQ(rows("SELECT count(*), count(graph_node) FROM gpu_event"), (Rows{{"4", "0"}}))
      << "recording an event is nothing that a GPU does";
}

TEST_F(DeviceTest, LinksAreToldByTheirLineRate) {
  // published/links.csv: PCIe 3.0 x16 carries 15.754 GB/s in each direction.
  EXPECT_EQ(store::pcie_link("8.0 GT/s x16")->name, "PCIe 3.0 x16");
  EXPECT_NEAR(store::pcie_link("8.0 GT/s x16")->bytes_per_second, 15.754e9, 5e5);
  EXPECT_NEAR(store::pcie_link("2.5 GT/s x1")->bytes_per_second, 0.25e9, 1);
  EXPECT_NEAR(store::pcie_link("32.0 GT/s x16")->bytes_per_second, 63.015e9, 5e5);
  for (const char* text : {"", "Unknown x16", "7.0 GT/s x16", "8.0 GT/s x0", "8.0 GT/s x99"})
    EXPECT_FALSE(store::pcie_link(text)) << text;
  // Likewise NVLink 1.0 of P100 with 4 links 80, NVLink 2.0 of V100 with 6 links 150. Others as NVIDIA prints them for
  // A100, H100, B200, half of the sum of both directions.
  EXPECT_EQ(store::nvlink(4, 1, 0).bytes_per_second, 80e9);
  EXPECT_EQ(store::nvlink(6, 2, 25781).bytes_per_second, 150e9);
  EXPECT_EQ(store::nvlink(12, 4, 0).bytes_per_second, 300e9);
  EXPECT_EQ(store::nvlink(18, 6, 26562).bytes_per_second, 450e9);
  EXPECT_EQ(store::nvlink(18, 7, 53125).bytes_per_second, 900e9);
  EXPECT_EQ(store::nvlink(18, 7, 26562).name, "NVLink 4.0 x18") << "what some drivers call 5.0 on an H100";
  EXPECT_EQ(store::nvlink(18, 7, 26562).bytes_per_second, 450e9);
  EXPECT_EQ(store::nvlink(2, 99, 0).bytes_per_second, 0) << "not known";
  EXPECT_EQ(store::nvlink(2, 99, 0).name, "NVLink x2");
  spool_.fact("nvlink.00000000:3B:00.0", "0000ABCD:5E:00.0 x4 version 2 25781 MB/s");
  spool_.fact("nvlink.00000000:3B:00.0", "cpu x2 version 0 0 MB/s");
  spool_.fact("nvlink.00000000:3B:00.0", "damaged");
  spool_.fact("gpu.0.name", "NVIDIA H200");
  spool_.fact("gpu.0.link", "8.0 GT/s x4");
  spool_.fact("gpu.1.bus", "0000:3b:00.0");
  spool_.fact("gpu.off", "why");
  load();
  EXPECT_EQ(
      rows("SELECT device, name, bus, link, CAST(link_bytes_per_second AS INTEGER) FROM gpu"),
      (Rows{{"0", "NVIDIA H200", "NULL", "PCIe 3.0 x4", "3938461538"}, {"1", "NULL", "0000:3b:00.0", "NULL", "NULL"}}));
  EXPECT_EQ(rows("SELECT bus, peer, link, CAST(link_bytes_per_second AS INTEGER) FROM nvlink"),
            (Rows{{"0000:3b:00.0", "abcd:5e:00.0", "NVLink 2.0 x4", "100000000000"},
                  {"0000:3b:00.0", "cpu", "NVLink x2", "NULL"}}));
}

TEST_F(DeviceTest, KernelsAreToldApartByTheirNames) {
  const auto class_of = [](const char* name) {
    return std::string(store::GpuNames::class_of(store::GpuNames::readable(name)));
  };
  for (
      const char* name :
      {"ncclKernel_AllReduce_RING_LL_Sum_float", "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
       "ncclSymkDevKernel_AllReduce", "rcclGenericKernel<1>(ncclDevKernelArgsStorage<4096ul>)", "mscclKernel_Sum",
       "void mscclpp::allreduceNvls<__half>(void*, int)", "nvshmemi_put_nbi",
       "barrier_on_stream_kernel_threadgroup(int)", "void nvshmemi_transfer_rma_p<int>",
       // PyTorch's symmetric memory; the last one as the compiler wrote it
       "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long, unsigned int**)",
       "multimem_one_shot_all_reduce_kernel",
       "void <unnamed>::one_shot_all_reduce_kernel<float, 16, 8>(float**, float*)", "two_shot_all_reduce_kernel",
       "two_shot_all_reduce_kernel_inplace", "stream_write_value32_kernel(unsigned int*, unsigned int)",
       "c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int)", "put_signal_kernel",
       "wait_signal_kernel", "_ZN12_GLOBAL__N_118one_shot_all_reduceIfEEvPT_",
       // Inference servers, mixtures of experts
       "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)",
       "_ZN4vllm26cross_device_reduce_2stageI6__h",
       "void sglang::cross_device_reduce_2stage<__half, 4>(sglang::RankData*)",
       "void deep_ep::intranode::dispatch<8, 768>(int4*, float*)", "void deep_ep::internode_ll::combine<true>(void*)",
       "void primus_turbo::deep_ep::intranode::cached_notify_dispatch<8>(int const*)",
       "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8>(tensorrt_llm::kernels::AllReduceParams)",
       "twoShotAllReduceKernel", "void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<8>(int)",
       // Computes as well
       "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(int)1, __half, 8>(int)",
       "kuserbuffers_pushrecv(int, int, int*, int*, int)", "ucc_reduce_cuda(int)"})
    EXPECT_EQ(class_of(name), "communication") << name;
  for (const char* name :
       {"void gemm<float>(float*, int)", "_Z4gemmIfEvPT_i", "sm80_xmma_fprop_implicit_gemm_tf32",
        "ampere_scudnn_128x64_relu", "nvjet_hsh_128x64",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float>>>(float)",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>(float*)", "Cijk_Ailk_Bljk_SB_MT64x16x32",
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float>(cublasGemvParams<float>)",
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>(Flash_fwd_params)", "fusion_12", "input_reduce_fusion",
        // What only looks like a collective
        "void blockAllReduceSum<float>(float*)", "warp_all_reduce_softmax_kernel",
        "triton_red_fused_all_reduce_native_layer_norm_0", "triton_poi_fused__to_copy_wait_tensor_1",
        "void at::native::elementwise_kernel<128, 2, ncclKernel_AllReduce>(ncclWork*)",
        "void cub::DeviceReduceKernel<float, one_shot_all_reduce_policy>(float*)"})
    EXPECT_EQ(class_of(name), "compute") << name;
  for (const char* name : {"?", "", "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
                           "void copy_from_peer<float>(float*)",
                           "void clover::par_ranged2d_kernel<reduce_kernel(int)>(clover::Range2d)", "a<b<c(", "))>>("})
    EXPECT_EQ(class_of(name), "unclassified") << name;
  EXPECT_EQ(class_of("[CUDA memset]"), "copy");
  EXPECT_EQ(class_of("[CUPTI overhead]"), "other");
}

}  // namespace
}  // namespace ddl
