// What a chunk takes, and what crosses its cuts, follows from what its units read and write.

#include "runtime/model/liveness.hpp"

#include "tests/support/broken.hpp"
#include "tests/support/two_streams.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

using names = std::vector<std::string>;

const names rows = {"positions", "samples", "documents", "document_samples"};

names with_rows(names first) {
  first.insert(first.end(), rows.begin(), rows.end());
  return first;
}

}  // namespace

TEST_CASE("a GPT's chunks exchange one stream, tokens go in first and labels last", "[model]") {
  const auto model = gpt_spec(tiny_gpt(2));
  CHECK(model.letters() == gpt_letters(2));
  const auto first = flow_of(model, {0, 2}), middle = flow_of(model, {2, 2}),
             last = flow_of(model, {2, 4}), whole = flow_of(model, all_of(model));
  CHECK(first.batch == with_rows({"tokens"}));
  CHECK(!first.before.is_crossed());
  CHECK(first.after.streams == names{"decoder"});
  CHECK(first.after.inputs == rows);
  CHECK(middle.batch.empty());
  CHECK(middle.before.streams == middle.after.streams);
  CHECK(middle.before.inputs == rows);
  CHECK(last.batch == names{"labels", "mask"});
  CHECK(last.before.streams == names{"decoder"});
  CHECK(!last.after.is_crossed());
  CHECK(whole.is_whole());
  for (const auto* const name : {"tokens", "positions", "labels", "mask"})
    CHECK(std::find(whole.batch.begin(), whole.batch.end(), name) != whole.batch.end());
}

TEST_CASE("a tensor travels from its first reader or writer to its last reader", "[model]") {
  const auto model = two_streams();
  const auto cuts = cuts_of(model);
  REQUIRE(cuts.size() == 8);
  CHECK(!cuts[0].is_crossed());
  CHECK(cuts[1].streams == names{"decoder"});
  for (std::size_t unit = 2; unit <= 5; ++unit)
    CHECK(cuts[unit].streams == names{"decoder", "summary"});
  CHECK(cuts[6].streams == names{"decoder"});
  for (std::size_t unit = 1; unit <= 4; ++unit)
    CHECK(cuts[unit].inputs == with_rows({"tokens"}));
  CHECK(cuts[5].inputs == rows);
  CHECK(!cuts[7].is_crossed());
}

TEST_CASE("a model with two streams has the bits of the whole at every cut", "[model]") {
  const auto model = two_streams();
  const auto last = std::int64_t(model.units.size());
  const auto cut = GENERATE(range(std::int64_t{1}, std::int64_t{7}));
  const auto how = GENERATE(recompute_settings{},
                            recompute_settings{recompute_granularity::selective},
                            recompute_settings{recompute_granularity::full});
  CAPTURE(cut, int(how.granularity));
  stream stream(kernels::backend::cpu, 1, {});
  stages whole(model, {{0, last}}, stream), two(model, {{0, cut}, {cut, last}}, stream, how);
  std::vector<chunk_range> each;
  for (std::int64_t u = 0; u < last; ++u)
    each.push_back({u, u + 1});
  stages all(model, each, stream, how);
  for (int m = 0; m < 2; ++m) {
    const auto in = tiny_batch(stream, model, 2, std::uint64_t(m), true);
    const auto expected = whole.forward_backward(m, in).total;
    CHECK(two.forward_backward(m, in).total == expected);
    CHECK(all.forward_backward(m, in).total == expected);
  }
  CHECK(two.gradients() == whole.gradients());
  CHECK(all.gradients() == whole.gradients());
}

TEST_CASE("MODEL-2, MODEL-3, MODEL-4: units fit their streams, and a model has what is asked for",
          "[model]") {
  auto model = two_streams();
  CHECK_BREAKS("MODEL-3", model.part<layer_spec>(3));
  for (const auto& none : {chunk_range{-1, 2}, chunk_range{3, 2}, chunk_range{2, 8}})
    CHECK_BREAKS("MODEL-4", flow_of(model, none));
  model.units[1].stream = "no such stream";
  CHECK_BREAKS("MODEL-2", chunk(model, all_of(model)));
}
