#include "runtime/tensor/batch_schema.hpp"

#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>

#include <map>

using namespace troupe::runtime;

namespace {

/// An encoder's input, a shorter target, and patches.
const batch_schema three
    = {.tensors = {{.name = "input", .type = dtype::i32, .extents = {7}, .rows = 0},
                   {.name = "target", .type = dtype::i32, .extents = {3}, .rows = 0},
                   {.name = "patches", .type = dtype::f32, .extents = {5, 2}, .rows = 0}},
       .documents_of = "target"};

}  // namespace

TEST_CASE("a micro-batch has its schema's tensors and the sample numbers", "[tensor]") {
  memory_pool pool;
  const auto x = empty_batch(three, 2, pool);
  CHECK(names_of(x) == "'input', 'target', 'patches', 'samples'");
  CHECK(names_of(three) == names_of(x));
  CHECK(x.at("input").extents() == shape{2, 7});
  CHECK(x.at("target").type() == dtype::i32);
  CHECK(x.at("patches").extents() == shape{2, 5, 2});
  CHECK(x.at("patches").type() == dtype::f32);
  CHECK(x.at("samples").extents() == shape{2});
}

TEST_CASE("the memory of a micro-batch is that of each tensor", "[tensor]") {
  auto pool = memory_pool::shadow();
  std::map<std::string, std::size_t> bytes;
  empty_batch(three, 2, [&](const std::string& name, std::size_t size) {
    bytes[name] = size;
    return pool.allocate(size);
  });
  CHECK(bytes
        == std::map<std::string, std::size_t>{
            {"input", 56}, {"target", 24}, {"patches", 80}, {"samples", 16}});
}

TEST_CASE("a view of a sample is its part of each tensor", "[tensor]") {
  memory_pool pool;
  const auto x = empty_batch(three, 2, pool);
  document_cuts cuts;
  const sample_view second(x, 1, &cuts);
  CHECK(second.at<std::int32_t>("target").data() == x.at("target").data<std::int32_t>() + 3);
  CHECK(second.at<float>("patches").size() == 10);
  CHECK(second.at<std::uint64_t>("samples").size() == 1);
  second.cut(2);
  sample_view(x, 0).cut(1);
  CHECK(cuts == document_cuts{{"documents", {2}}});
  CHECK_BREAKS("BUNDLE-1", second.at<float>("audio"));
  CHECK_BREAKS("TENSOR-1", second.at<float>("target"));
}

TEST_CASE("borders of documents are given for the schema that limits attention", "[tensor]") {
  CHECK(three.gives("patches"));
  CHECK(three.gives("samples"));
  CHECK(three.gives("document_samples"));
  CHECK(!three.gives("audio"));
  CHECK(three.rows_of("target") == 3);
  CHECK(three.rows_of("patches") == 5);
  auto x = three;
  x.documents_of.clear();
  CHECK(!x.gives("documents"));
}

TEST_CASE("SCHEMA-1: rows are counted of a tensor that has them", "[tensor]") {
  auto x = three;
  CHECK_BREAKS("SCHEMA-1", x.rows_of("audio"));
  x.tensors.back().rows = -1;
  CHECK_BREAKS("SCHEMA-1", x.rows_of("patches"));
}
