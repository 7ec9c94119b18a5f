#include "runtime/collective/nccl/end.hpp"

namespace troupe::runtime::nccl {

namespace {

cudaStream_t stream_of(void* queue) {
  return static_cast<cudaStream_t>(queue);
}

struct summed {
  ncclDataType_t type;
  std::int64_t bytes;
};

summed summed_as(dtype type) {
  switch (type) {
    case dtype::f32:
      return {ncclFloat32, 4};
    case dtype::bf16:
      return {ncclBfloat16, 2};
    case dtype::f16:
      return {ncclFloat16, 2};
    case dtype::i32:
    case dtype::u64:
    case dtype::f64:
      break;
  }
  throw nccl_end::failure("NCCL does not support sums of " + std::string(to_string(type)));
}

}  // namespace

void end::exchange(void* queue,
                   std::span<const nccl_send> sends,
                   std::span<const nccl_receive> receives) {
  call("sending and receiving", [&](ncclComm_t comm) {
    auto result = ncclGroupStart();
    const auto take = [&](ncclResult_t one) {
      if (result == ncclSuccess && one != ncclInProgress)
        result = one;
    };
    for (const auto& x : sends)
      take(ncclSend(x.from, std::size_t(x.bytes), ncclUint8, x.to, comm, stream_of(queue)));
    for (const auto& x : receives)
      take(ncclRecv(x.to, std::size_t(x.bytes), ncclUint8, x.from, comm, stream_of(queue)));
    const auto ended = ncclGroupEnd();  // always: closes the thread's group
    return result == ncclSuccess ? ended : result;
  });
}

void end::all_gather(void* queue, const void* mine, void* to, std::int64_t bytes_each) {
  call("gathering", [&](ncclComm_t comm) {
    return ncclAllGather(mine, to, std::size_t(bytes_each), ncclUint8, comm, stream_of(queue));
  });
}

void end::broadcast(void* queue, void* data, std::int64_t bytes, int root) {
  call("broadcasting", [&](ncclComm_t comm) {
    return ncclBroadcast(data, data, std::size_t(bytes), ncclUint8, root, comm, stream_of(queue));
  });
}

void end::all_reduce_sum(void* queue, dtype type, const void* from, void* to, std::int64_t n) {
  call("summing", [&](ncclComm_t comm) {
    return ncclAllReduce(
        from, to, std::size_t(n), summed_as(type).type, ncclSum, comm, stream_of(queue));
  });
}

void end::reduce_scatter_sum(
    void* queue, dtype type, const void* from, void* to, std::int64_t n_each) {
  call("summing equal cuts", [&](ncclComm_t comm) {
    return ncclReduceScatter(
        from, to, std::size_t(n_each), summed_as(type).type, ncclSum, comm, stream_of(queue));
  });
}

void end::reduce_cuts(
    void* queue, dtype type, const void* from, void* to, std::span<const std::int64_t> ends) {
  const auto [native, bytes] = summed_as(type);
  call("summing uneven cuts", [&, native = native, bytes = bytes](ncclComm_t comm) {
    auto result = ncclGroupStart();
    for (std::size_t r = 0; r < ends.size(); ++r) {
      const auto begin = r == 0 ? 0 : ends[r - 1];
      if (ends[r] == begin)
        continue;
      const auto* const cut = static_cast<const std::byte*>(from) + begin * bytes;
      const auto one = ncclReduce(
          cut, to, std::size_t(ends[r] - begin), native, ncclSum, int(r), comm, stream_of(queue));
      if (result == ncclSuccess && one != ncclInProgress)
        result = one;
    }
    const auto ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
  });
}

}  // namespace troupe::runtime::nccl
