#include "runtime/tokenizer/subword_model.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/bpe_merger.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::runtime;

TEST_CASE("a worker returns to its pool, also after an exception", "[tokenizer]") {
  worker_pool pool;
  int made = 0;
  const auto make = [&made] {
    ++made;
    return std::make_unique<subword_worker>();
  };
  const subword_worker* first = nullptr;
  CHECK_THROWS_AS(
      [&] {
        const auto worker = pool.take(make);
        first = &*worker;
        throw input_error("it cannot be encoded");
      }(),
      input_error);
  const auto worker = pool.take(make);
  CHECK(&*worker == first);
  const auto other = pool.take(make);
  CHECK(&*other != first);
  CHECK(made == 2);
}

TEST_CASE("a waiting worker does not keep the memory of a long word", "[tokenizer]") {
  worker_pool pool;
  const auto make = [] { return std::make_unique<bpe_worker>(); };
  const auto room_after = [&](std::size_t pieces) {
    {
      const auto worker = pool.take(make);
      auto& by = static_cast<bpe_worker&>(*worker);
      by.begin();
      by.pieces.reserve(pieces);
    }
    const auto worker = pool.take(make);
    return static_cast<bpe_worker&>(*worker).pieces.capacity();
  };
  CHECK(room_after(1000) == 1000);
  CHECK(room_after(subword_worker::kept + 1) == 0);
  CHECK(room_after(subword_worker::kept) == subword_worker::kept);
}
