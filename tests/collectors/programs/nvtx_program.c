/* What an annotated program does with the real headers of NVTX: two steps of two layers and a little of everything.
 * tests/collectors/nvtx_job.py knows what must be found in the run. */
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

static nvtxRangeId_t g_started;

static nvtxEventAttributes_t attributes(void) {
  nvtxEventAttributes_t e;
  memset(&e, 0, sizeof e);
  e.version = NVTX_VERSION;
  e.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  return e;
}

static void* backward(void* unused) {
  nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), "autograd");
  nvtxRangePushA("autograd::engine::evaluate_function: AddmmBackward0, op_id = 100");
  nvtxRangePushA("AddmmBackward0, seq = 7, op_id = 101");
  nvtxRangePop();
  nvtxRangePop();
  nvtxRangeEnd(g_started);
  return unused;
}

int main(void) {
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("trainer");
  const nvtxStringHandle_t name = nvtxDomainRegisterStringA(domain, "fc2");
  nvtxDomainNameCategoryA(domain, 3, "phase");
  for (int step = 0; step < 2; ++step) {
    char text[32];
    snprintf(text, sizeof text, "step %d", step);
    nvtxRangePushA(text);
    nvtxEventAttributes_t e = attributes();
    e.category = 3;
    e.messageType = NVTX_MESSAGE_TYPE_UNICODE;
    e.message.unicode = L"vorw\u00e4rts";
    nvtxDomainRangePushEx(domain, &e);
    nvtxRangePushA("layer:fc1");
    nvtxRangePushA("aten::linear, seq = 7, op_id = 40");
    nvtxRangePop();
    nvtxRangePop();
    e = attributes();
    e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    e.message.registered = name;
    nvtxDomainRangePushEx(domain, &e);
    nvtxDomainRangePop(domain);
    nvtxDomainRangePop(domain);
    g_started = nvtxRangeStartA("prefetch");
    pthread_t thread;
    pthread_create(&thread, NULL, backward, NULL);
    pthread_join(thread, NULL);
    e = attributes();
    e.messageType = NVTX_MESSAGE_TYPE_ASCII;
    e.message.ascii = "loss";
    e.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
    e.payload.dValue = 0.5 - 0.25 * step;
    nvtxMarkEx(&e);
    nvtxRangePop();
  }
  printf("%d %d\n", nvtxRangePop(), nvtxDomainRangePop(domain)); /* both are one too many */
  const nvtxPayloadSchemaEntry_t entries[] = {{0, NVTX_PAYLOAD_ENTRY_TYPE_SIZE, "images", NULL, 0, 0, NULL, NULL},
                                              {0, NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, "lr", NULL, 0, 8, NULL, NULL}};
  const struct {
    size_t images;
    float lr;
  } data = {640, 0.125f};
  const nvtxPayloadSchemaAttr_t schema = {NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                                              NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES,
                                          "s",
                                          NVTX_PAYLOAD_SCHEMA_TYPE_STATIC,
                                          0,
                                          entries,
                                          2,
                                          sizeof data,
                                          0,
                                          0,
                                          NULL};
  const nvtxPayloadData_t payload = {nvtxPayloadSchemaRegister(domain, &schema), sizeof data, &data};
  nvtxMarkPayload(domain, &payload, 1);
  return 0;
}
