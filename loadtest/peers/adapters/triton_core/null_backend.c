/* A backend for Triton that computes nothing: answers with the first bytes of
 * its only input. What is left is Triton's own C++ front end and core.
 *
 * Triton's headers are in no package, so the few calls that are needed are
 * declared here, as its public C interface defines them; the server that opens
 * this library provides them.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef struct TRITONSERVER_Error TRITONSERVER_Error;
typedef struct TRITONBACKEND_Input Input;
typedef struct TRITONBACKEND_Output Output;
typedef struct TRITONBACKEND_Request Request;
typedef struct TRITONBACKEND_Response Response;
typedef struct TRITONBACKEND_ModelInstance ModelInstance;

enum { kFp32 = 11, kMemoryCpu = 0, kReleaseAll = 1, kResponseFinal = 1 };
enum { kInvalidArgument = 3, kColumns = 16 };

TRITONSERVER_Error* TRITONSERVER_ErrorNew(int code, const char* message);
TRITONSERVER_Error* TRITONBACKEND_RequestInputByIndex(Request* request,
                                                      uint32_t index,
                                                      Input** input);
TRITONSERVER_Error* TRITONBACKEND_InputProperties(
    Input* input, const char** name, int* datatype, const int64_t** shape,
    uint32_t* rank, uint64_t* bytes, uint32_t* buffers);
TRITONSERVER_Error* TRITONBACKEND_InputBuffer(Input* input, uint32_t index,
                                              const void** buffer,
                                              uint64_t* bytes, int* memory,
                                              int64_t* memory_id);
TRITONSERVER_Error* TRITONBACKEND_ResponseNew(Response** response,
                                              Request* request);
TRITONSERVER_Error* TRITONBACKEND_ResponseOutput(Response* response,
                                                 Output** output,
                                                 const char* name, int datatype,
                                                 const int64_t* shape,
                                                 uint32_t rank);
TRITONSERVER_Error* TRITONBACKEND_OutputBuffer(Output* output, void** buffer,
                                               uint64_t bytes, int* memory,
                                               int64_t* memory_id);
TRITONSERVER_Error* TRITONBACKEND_ResponseSend(Response* response,
                                               uint32_t flags,
                                               TRITONSERVER_Error* error);
TRITONSERVER_Error* TRITONBACKEND_RequestRelease(Request* request,
                                                 uint32_t flags);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportStatistics(
    ModelInstance* instance, Request* request, _Bool success,
    uint64_t exec_start_ns, uint64_t compute_start_ns, uint64_t compute_end_ns,
    uint64_t exec_end_ns);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportBatchStatistics(
    ModelInstance* instance, uint64_t batch_size, uint64_t exec_start_ns,
    uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t exec_end_ns);

static uint64_t NowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* y[rows, 16] = the first 16 values of each row of x[rows, columns]. */
static TRITONSERVER_Error* Copy(Request* request, Response* response,
                                uint64_t* rows) {
  Input* input = NULL;
  Output* output = NULL;
  const int64_t* shape = NULL;
  const void* source = NULL;
  void* target = NULL;
  uint32_t rank = 0, buffers = 0;
  uint64_t bytes = 0, first_bytes = 0;
  int memory = kMemoryCpu;
  int64_t memory_id = 0;
  TRITONSERVER_Error* error =
      TRITONBACKEND_RequestInputByIndex(request, 0, &input);
  if (error == NULL) {
    error = TRITONBACKEND_InputProperties(input, NULL, NULL, &shape, &rank,
                                          &bytes, &buffers);
  }
  if (error == NULL) {
    error = TRITONBACKEND_InputBuffer(input, 0, &source, &first_bytes, &memory,
                                      &memory_id);
  }
  if (error != NULL) return error;
  if (rank != 2 || buffers != 1 || memory != kMemoryCpu) {
    return TRITONSERVER_ErrorNew(
        kInvalidArgument, "expected x of rank 2 in one piece of CPU memory");
  }
  const int64_t answer[2] = {shape[0], kColumns};
  const uint64_t row_bytes = kColumns * sizeof(float);
  *rows = (uint64_t)shape[0];
  error =
      TRITONBACKEND_ResponseOutput(response, &output, "y", kFp32, answer, 2);
  if (error == NULL) {
    error = TRITONBACKEND_OutputBuffer(output, &target, *rows * row_bytes,
                                       &memory, &memory_id);
  }
  if (error != NULL) return error;
  for (uint64_t row = 0; row < *rows; ++row) {
    memcpy((char*)target + row * row_bytes,
           (const char*)source + row * (bytes / *rows), row_bytes);
  }
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(ModelInstance* instance,
                                                       Request** requests,
                                                       const uint32_t count) {
  const uint64_t start = NowNs();
  uint64_t batch = 0;
  for (uint32_t i = 0; i < count; ++i) {
    Response* response = NULL;
    uint64_t rows = 1;
    TRITONSERVER_Error* error =
        TRITONBACKEND_ResponseNew(&response, requests[i]);
    if (error == NULL) {
      error = Copy(requests[i], response, &rows);
      batch += rows;
      const uint64_t end = NowNs();
      TRITONBACKEND_ModelInstanceReportStatistics(
          instance, requests[i], error == NULL, start, start, end, end);
      TRITONBACKEND_ResponseSend(response, kResponseFinal, error);
    }
    TRITONBACKEND_RequestRelease(requests[i], kReleaseAll);
  }
  const uint64_t end = NowNs();
  TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, batch, start,
                                                   start, end, end);
  return NULL;
}
