#include "runtime/core/error.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/emulator/control.hpp"
#include "tests/support/emulated_plugins.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <limits>
#include <numeric>
#include <thread>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::size_t free_memory() {
  return std::size_t(open_devices().free_memory(0));
}

std::vector<float> counted(std::int64_t n, float first = 0) {
  std::vector<float> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), first);
  return out;
}

stream on_device() {
  return {backend_kind::cuda, 1, {}};
}

}  // namespace

TEST_CASE("POOL-1: a pool serves one queue from its first block on", "[device]") {
  memory_pool used;
  const auto block = used.allocate(5);
  CHECK_THROWS_MATCHES(
      stream(backend_kind::cuda, 1, used), broken_promise, MessageMatches(StartsWith("POOL-1")));
  memory_pool taken;
  const stream first(backend_kind::cuda, 1, taken);
  CHECK_THROWS_MATCHES(
      stream(backend_kind::cuda, 1, taken), broken_promise, MessageMatches(StartsWith("POOL-1")));
}

TEST_CASE("data written to a device is read back, small or in many pieces", "[device]") {
  auto stream = on_device();
  for (const std::int64_t n : {1, 5, 4096, 9000001}) {
    const auto values = counted(n);
    const auto x = uploaded(stream, values, {n});
    CHECK(x.kind() == memory_kind::device);
    CHECK(elements_of<float>(stream, x) == values);
    auto pool = stream.pool();
    tensor there(pool.allocate_pinned(x.bytes()), x.type(), x.extents());
    stream.copy(there.raw(), x.raw(), x.bytes());
    stream.finish();
    CHECK(there.kind() == memory_kind::pinned);
    CHECK(std::equal(values.begin(), values.end(), there.data<float>()));
  }
}

TEST_CASE("a cleared block is zero, and a freed block is reused", "[device]") {
  auto stream = on_device();
  const float* first = nullptr;
  for (int i = 0; i < 2; ++i) {
    auto x = tensor::empty<float>(stream, {1000});
    if (first == nullptr)
      first = x.data<float>();
    CHECK(x.data<float>() == first);
    stream.clear(x.raw(), x.bytes());
    CHECK(elements_of<float>(stream, x) == std::vector<float>(1000));
  }
}

TEST_CASE("POOL-2: a block for another queue was published", "[device]") {
  auto a = on_device(), b = on_device();
  const auto x = uploaded(a, counted(100), {100});
  CHECK_THROWS_MATCHES(taken(b, x), broken_promise, MessageMatches(StartsWith("POOL-2")));
  CHECK(taken(a, x).raw() == x.raw());
}

// Emulated queues run late and independently. Without events the second would read before the first
// has written, and the first would overwrite memory that the second still reads.
TEST_CASE(
    "a tensor passed to another queue is read after its write, and its memory is reused after the "
    "read",
    "[device]") {
  auto a = on_device(), b = on_device();
  constexpr std::int64_t n = 50000;
  for (int round = 0; round < 20; ++round) {
    const auto values = counted(n, float(round));
    auto x = uploaded(a, values, {n});
    const auto* const at = x.raw();
    bundle parts;
    parts.add("x", std::move(x));
    publish(a, parts);
    auto lent = taken(b, parts);
    parts = {};
    CHECK(lent.at("x").raw() == at);
    const auto copy = copy_of(b, lent.at("x"));
    lent = {};
    const auto next = uploaded(a, counted(n, -1), {n});
    CHECK(next.raw() == at);
    CHECK(elements_of<float>(b, copy) == values);
  }
}

// The parts of the joined memory were read by different queues.
TEST_CASE("joined memory is reused only after all uses of its parts", "[device]") {
  auto a = on_device(), b = on_device(), c = on_device();
  constexpr std::int64_t n = 3 * mib / 2 / 4;
  a.allocate(6 * mib);  // idle at once, as one block
  auto much = tensor::empty<float>(c, {16 * mib});
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 8; ++i)  // delays its reads
      c.clear(much.raw(), much.bytes());
    std::vector<tensor> copies;
    const std::byte* first = nullptr;
    {
      const auto x = uploaded(a, counted(n, float(round)), {n});
      const auto y = uploaded(a, counted(n, float(-round)), {n});
      first = std::min(x.raw(), y.raw());
      bundle parts;
      parts.add("x", x);
      parts.add("y", y);
      publish(a, parts);
      copies = {copy_of(b, taken(b, x)), copy_of(c, taken(c, y))};
    }
    const auto over = uploaded(a, counted(2 * n, -1), {2 * n});
    CHECK(over.raw() == first);
    CHECK(elements_of<float>(b, copies[0]) == counted(n, float(round)));
    CHECK(elements_of<float>(c, copies[1]) == counted(n, float(-round)));
  }
}

TEST_CASE("taking a host tensor on a device copies it there", "[device]") {
  auto device = on_device();
  stream host(backend_kind::cpu, 1, {});
  const auto values = counted(77);
  const auto x = uploaded(host, values, {77});
  const auto there = taken(device, x);
  CHECK(there.kind() == memory_kind::device);
  CHECK(elements_of<float>(device, there) == values);
}

TEST_CASE("an allocation beyond the device's memory names the free memory and what to change",
          "[device]") {
  auto stream = on_device();
  CHECK_THROWS_MATCHES(
      stream.allocate(std::size_t{1} << 40),
      io_error,
      MessageMatches(ContainsSubstring("out of memory on device 0")
                     && ContainsSubstring("1.1 TB more") && ContainsSubstring("are free")
                     && ContainsSubstring("`batch.micro`")));
}

TEST_CASE("pools of a device return idle memory before an allocation is refused", "[device]") {
  auto a = on_device();
  const auto most = free_memory() / 8 * 7;
  a.allocate(most);  // idle at once
  auto b = on_device();
  CHECK_NOTHROW(b.allocate(most));
}

TEST_CASE("a pool reserves memory in advance only while its device has 1 GiB left for others",
          "[device]") {
  auto a = on_device(), others = on_device();
  REQUIRE(free_memory() > 1930 * mib);
  const auto state = a.allocate(800 * mib);
  const auto first = a.allocate(4 * mib);
  CHECK(a.pool().held_bytes() == 900 * mib);  // an eighth in advance
  const auto theirs = others.allocate(free_memory() - 1074 * mib);
  const auto before = free_memory();
  const auto second = a.allocate(98 * mib);  // an eighth more would be 112
  CHECK(before - free_memory() == 98 * mib);
  const auto third = a.allocate(4 * mib);  // from its idle memory
  CHECK(before - free_memory() == 98 * mib);
}

TEST_CASE("a pool that cannot reserve in advance allocates what it needs", "[device]") {
  auto a = on_device();
  const auto state = a.allocate(400 * mib);
  troupe::emulator::plant_faults("cudaMalloc@1=2");  // no contiguous range is large enough
  const auto first = a.allocate(4 * mib);
  troupe::emulator::plant_faults("");
  CHECK(a.pool().held_bytes() == 404 * mib);
}

TEST_CASE("memory allocated apart is freed with its last copy and keeps no pool memory",
          "[device]") {
  const auto before = free_memory();
  memory_block kept;
  {
    auto a = on_device();
    auto pool = a.pool();
    const auto cut = pool.allocate(24 * mib);
    kept = pool.allocate_apart(8 * mib);
    auto other = pool.allocate_shared(16 * mib);
    CHECK(kind_of(kept) == memory_kind::device);
    CHECK(device_of(kept) == 0);
    CHECK(pool.bytes_in_use() == 48 * mib);
    CHECK(pool.held_bytes() == 24 * mib);
    CHECK(before - free_memory() == 48 * mib);
    const auto more = pool.allocate(2 * mib);  // an eighth of all that the pool has
    CHECK(before - free_memory() == 54 * mib);
    auto b = on_device();
    publish(other, a.mark());
    auto lent = lend(other, b.queue());
    other.reset();
    CHECK(before - free_memory() == 54 * mib);
    lent.reset();
    CHECK(before - free_memory() == 38 * mib);
    CHECK(pool.bytes_in_use() == 34 * mib);
  }
  CHECK(before - free_memory() == 8 * mib);
  kept.reset();
  CHECK(free_memory() == before);
}

TEST_CASE("a model's own element-wise code is refused on a device", "[device]") {
  auto stream = on_device();
  CHECK_THROWS_MATCHES(
      stream.run([] {}), input_error, MessageMatches(ContainsSubstring("`backend` cpu")));
}

TEST_CASE("a missing device is refused by its number", "[device]") {
  CHECK_THROWS_MATCHES(stream(backend_kind::cuda, 1, {}, 7),
                       troupe::kernels::backend_missing,
                       MessageMatches(ContainsSubstring("there is no device 7")));
}
