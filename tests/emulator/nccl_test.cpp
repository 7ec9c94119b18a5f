// Tests of NCCL on emulated devices (nccl.hpp): ranks are threads, each with its own device.

#include "tests/support/emulated.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <nccl.h>

#include <atomic>
#include <cstdlib>
#include <thread>

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr int ranks = 4;

// The first call of the runtime reads it later.
const bool several_devices = ::setenv("TROUPE_EMULATED_DEVICES", "4", 0) == 0;

void must_go(ncclResult_t result, const char* what) {
  if (result != ncclSuccess)
    throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(result));
}

/// Polls until the communicator is no longer in progress.
ncclResult_t polled(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    must_go(ncclCommGetAsyncError(comm, &state), "asking");
    std::this_thread::yield();
  }
  return state;
}

/// Completes a call on a non-blocking communicator.
void must_get_there(ncclComm_t comm, ncclResult_t result) {
  if (result == ncclInProgress)
    result = polled(comm);
  must_go(result, "a call");
}

/// One rank on its own thread, with its communicator.
struct rank_of {
  int rank;
  ncclComm_t comm = nullptr;
  device_queue queue = {};

  void init(const ncclUniqueId& id, int size = ranks) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (ncclCommInitRankConfig(&comm, size, id, rank, &config) != ncclInProgress)
      throw std::runtime_error("not in progress");
  }
};

/// Runs each rank on its own thread; then rethrows the exception of the lowest failed rank.
template <class Body>
void on_ranks(int size, Body body) {
  std::vector<std::exception_ptr> failed(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < size; ++r)
      threads.emplace_back([&, r] {
        try {
          must(cudaSetDevice(r), "choosing a device");
          rank_of self{.rank = r};
          body(self);
        } catch (...) {
          failed[std::size_t(r)] = std::current_exception();
        }
      });
  }
  for (const auto& one : failed)
    if (one)
      std::rethrow_exception(one);
}

ncclUniqueId new_id() {
  ncclUniqueId id;
  must_go(ncclGetUniqueId(&id), "an id");
  return id;
}

/// Runs `body` on all ranks with a ready communicator; destroys it at the end.
template <class Body>
void with_world(Body body) {
  const auto id = new_id();
  on_ranks(ranks, [&](rank_of& self) {
    self.init(id);
    must_go(polled(self.comm), "initialising");
    body(self);
    self.queue.wait();
    must_get_there(self.comm, ncclCommFinalize(self.comm));
    must_go(ncclCommDestroy(self.comm), "destroying");
  });
}

std::vector<float> input_of(int rank, std::size_t n) {
  return normal<float>(n, std::uint32_t(rank) + 100);
}

std::vector<float> rank_order_sum(std::size_t n) {
  std::vector<float> sum = input_of(0, n);
  for (int r = 1; r < ranks; ++r)
    for (std::size_t i = 0; i < n; ++i)
      sum[i] += input_of(r, n)[i];
  return sum;
}

}  // namespace

TEST_CASE(
    "an all-reduce has the same bits on all ranks and in all runs, different from rank order") {
  constexpr std::size_t n = 103;  // no multiple of the ranks
  std::vector<std::vector<float>> out(2 * ranks);
  for (int run = 0; run < 2; ++run)
    with_world([&](rank_of& self) {
      device_array<float> x(input_of(self.rank, n));
      must_get_there(
          self.comm,
          ncclAllReduce(
              x.data(), x.data(), n, ncclFloat32, ncclSum, self.comm, self.queue.stream()));
      out[std::size_t(run * ranks + self.rank)] = x.download();
    });
  const auto ordered = rank_order_sum(n);
  for (const auto& one : out)
    CHECK(one == out[0]);
  CHECK(out[0] != ordered);
  CHECK(relative_error(out[0], ordered) < 1e-6);  // three roundings of a sum of four
}

TEST_CASE("all-gather, reduce-scatter and broadcast work") {
  with_world([&](rank_of& self) {
    const auto me = std::size_t(self.rank);
    device_array<float> mine(std::vector<float>{float(self.rank), 10 * float(self.rank)}),
        all(2 * ranks), sum(1);
    must_get_there(
        self.comm,
        ncclAllGather(mine.data(), all.data(), 2, ncclFloat32, self.comm, self.queue.stream()));
    if (all.download() != std::vector<float>{0, 0, 1, 10, 2, 20, 3, 30})
      throw std::runtime_error("gathered wrong");
    must_get_there(
        self.comm,
        ncclReduceScatter(
            all.data(), sum.data(), 1, ncclFloat32, ncclSum, self.comm, self.queue.stream()));
    if (sum.download().front() != ranks * std::vector<float>{0, 0, 1, 10}[me])
      throw std::runtime_error("scattered wrong");
    must_get_there(
        self.comm,
        ncclBroadcast(mine.data(), mine.data(), 2, ncclFloat32, 2, self.comm, self.queue.stream()));
    if (mine.download() != std::vector<float>{2, 20})
      throw std::runtime_error("broadcast wrong");
  });
}

TEST_CASE("a group of sends and receives makes an all-to-all") {
  with_world([&](rank_of& self) {
    std::vector<float> host;
    for (int to = 0; to < ranks; ++to)
      host.push_back(float(100 * self.rank + to));
    device_array<float> from(host), to(ranks);
    must_go(ncclGroupStart(), "a group");
    for (int peer = 0; peer < ranks; ++peer) {
      must_go(ncclSend(from.data() + peer, 1, ncclFloat32, peer, self.comm, self.queue.stream()),
              "send");
      must_go(ncclRecv(to.data() + peer, 1, ncclFloat32, peer, self.comm, self.queue.stream()),
              "recv");
    }
    must_get_there(self.comm, ncclGroupEnd());
    for (int peer = 0; const float got : to.download())
      if (got != float(100 * peer++ + self.rank))
        throw std::runtime_error("exchanged wrong");
  });
}

TEST_CASE("an abort releases the stream of its own rank") {
  const auto id = new_id();
  std::atomic<int> waiting = 0;
  on_ranks(ranks, [&](rank_of& self) {
    self.init(id);
    must_go(polled(self.comm), "initialising");
    device_array<float> x(std::vector<float>(8, 1));
    if (self.rank != 3)  // rank 3 stays away
      must_get_there(
          self.comm,
          ncclAllReduce(
              x.data(), x.data(), 8, ncclFloat32, ncclSum, self.comm, self.queue.stream()));
    ++waiting;
    while (waiting < ranks)
      std::this_thread::yield();
    if (self.rank != 3 && cudaStreamQuery(self.queue.stream()) != cudaErrorNotReady)
      throw std::runtime_error("did not wait");
    must_go(ncclCommAbort(self.comm), "aborting");
    self.queue.wait();
    if (x.download() != std::vector<float>(8, 1))
      throw std::runtime_error("something was written");
  });
  SUCCEED();
}

TEST_CASE("calls on an unready or destroyed communicator are refused") {
  must(cudaSetDevice(0), "choosing a device");
  rank_of alone{.rank = 0};
  alone.init(new_id(), 2);
  ncclResult_t state = ncclSuccess;
  CHECK(ncclCommGetAsyncError(alone.comm, &state) == ncclSuccess);
  CHECK(state == ncclInProgress);
  int count = 0;
  CHECK(ncclCommCount(alone.comm, &count) == ncclInvalidArgument);
  CHECK(ncclCommAbort(alone.comm) == ncclSuccess);
  CHECK(ncclCommAbort(alone.comm) == ncclInvalidArgument);
  ncclUniqueId made_up = {};
  CHECK(ncclCommInitRankConfig(&alone.comm, 1, made_up, 0, nullptr) == ncclInvalidArgument);
}

TEST_CASE("two ranks on one device are refused") {
  const auto id = new_id();
  on_ranks(2, [&](rank_of& self) {
    must(cudaSetDevice(0), "choosing a device");
    self.init(id, 2);
    if (polled(self.comm) != ncclInvalidUsage)
      throw std::runtime_error("accepted");
    must_go(ncclCommAbort(self.comm), "aborting");
  });
  SUCCEED();
}

TEST_CASE("a split makes one communicator per colour, with ranks in the order of the keys") {
  with_world([&](rank_of& self) {
    ncclComm_t child = nullptr;
    const int color = self.rank == 3 ? NCCL_SPLIT_NOCOLOR : self.rank % 2;
    const auto result = ncclCommSplit(self.comm, color, -self.rank, &child, nullptr);
    if (self.rank == 3) {
      if (child != nullptr || result != ncclSuccess)
        throw std::runtime_error("no colour, but a communicator");
      return;
    }
    must_get_there(child, result);
    int count = 0, rank = 0;
    must_go(ncclCommCount(child, &count), "counting");
    must_go(ncclCommUserRank(child, &rank), "asking");
    // 0 and 2 have the same colour, 2 comes first; 1 is alone
    if (count != (self.rank == 1 ? 1 : 2) || rank != (self.rank == 0 ? 1 : 0))
      throw std::runtime_error("split wrong");
    must_go(ncclCommDestroy(child), "destroying");
  });
  SUCCEED();
}

TEST_CASE("mismatched collectives cause a permanent error") {
  const auto id = new_id();
  on_ranks(2, [&](rank_of& self) {
    self.init(id, 2);
    must_go(polled(self.comm), "initialising");
    device_array<float> x(std::vector<float>(8, 1));
    const std::size_t count = self.rank == 0 ? 8 : 4;
    ncclAllReduce(x.data(), x.data(), count, ncclFloat32, ncclSum, self.comm, self.queue.stream());
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess || state == ncclInProgress)
      must_go(ncclCommGetAsyncError(self.comm, &state), "asking");
    must_go(ncclCommAbort(self.comm), "aborting");
    self.queue.wait();
    if (state != ncclInvalidUsage)
      throw std::runtime_error("another error");
  });
  SUCCEED();
}
