#include "runtime/checkpoint/compare.hpp"

#include "runtime/checkpoint/listing.hpp"
#include "runtime/core/error.hpp"
#include "tests/runtime/checkpoint/saved.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <limits>

using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

fs::path save_parts(const fs::path& dir, const std::vector<shard_to_write>& parts) {
  checkpoint_writer writer(dir, 1, generation_id{1});
  checkpoint_manifest manifest;
  manifest.model = tiny_model();
  manifest.shards.push_back(writer.write_shard("a.safetensors", parts));
  return writer.commit(manifest);
}

}  // namespace

TEST_CASE("tensors with different pieces are compared within any memory limit", "[checkpoint]") {
  const scratch_folder one, two;
  auto x = elements(1, 60), y = x;
  y[7] += 0.5F;
  y[59] -= 2;
  std::vector<float> left, right;
  for (std::size_t i = 0; i < 60; ++i)
    (i % 10 < 4 ? left : right).push_back(y[i]);
  const checkpoint_reader a(
      save_parts(one.path(),
                 {{"w", {60}, {{0}, {25}}, {stored_type::f32, x.data()}},
                  {"w", {60}, {{25}, {35}}, {stored_type::f32, x.data() + 25}},
                  whole_tensor("m", stored_type::f32, {6, 10}, x.data())}));
  const checkpoint_reader b(
      save_parts(two.path(),
                 {whole_tensor("w", stored_type::f32, {60}, x.data()),
                  {"m", {6, 10}, {{0, 0}, {6, 4}}, {stored_type::f32, left.data()}},
                  {"m", {6, 10}, {{0, 4}, {6, 6}}, {stored_type::f32, right.data()}}}));
  for (const std::size_t memory : {std::size_t(1), std::size_t(100), std::size_t(1) << 20}) {
    std::int64_t told = 0;
    const auto same = compare(
        a, b, "w", [&](auto n) { told += n; }, memory);
    CHECK(told == 60);
    CHECK(same.elements == 60);
    CHECK(same.different == 0);
    CHECK_FALSE(same.largest);
    const auto other = compare(a, b, "m", {}, memory);
    CHECK(other.different == 2);
    CHECK(other.largest == double(x[59]) - double(y[59]));
  }
  const scratch_folder three;
  const checkpoint_reader shorter(
      save_parts(three.path(), {whole_tensor("w", stored_type::f32, {59}, x.data())}));
  CHECK_BREAKS("COMPARE-1", compare(a, shorter, "w"));
}

TEST_CASE("NaN, signed zeros and other types are compared", "[checkpoint]") {
  constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
  const scratch_folder one, two;
  const float x[] = {0, nan, nan, 1}, y[] = {-0.0F, nan, 1, 1};
  const std::uint16_t narrow[] = {0x3f80, 0x4000}, wide[] = {1, 2};
  const float values[] = {1, 2};
  const std::uint64_t counts[] = {1, 2}, others[] = {1, 3};
  const checkpoint_reader a(save_parts(one.path(),
                                       {whole_tensor("special", stored_type::f32, {4}, x),
                                        whole_tensor("type", stored_type::bf16, {2}, narrow),
                                        whole_tensor("count", stored_type::u64, {2}, counts),
                                        whole_tensor("odd", stored_type::u16, {2}, wide),
                                        whole_tensor("empty", stored_type::f32, {0}, nullptr)}));
  const checkpoint_reader b(save_parts(two.path(),
                                       {whole_tensor("special", stored_type::f32, {4}, y),
                                        whole_tensor("type", stored_type::f32, {2}, values),
                                        whole_tensor("count", stored_type::u64, {2}, others),
                                        whole_tensor("odd", stored_type::f32, {2}, values),
                                        whole_tensor("empty", stored_type::f32, {0}, nullptr)}));
  const auto special = compare(a, b, "special");
  CHECK(special.different == 2);
  CHECK(std::isinf(special.largest.value()));
  CHECK(compare(a, b, "type").different == 0);
  const auto count = compare(a, b, "count");
  CHECK(count.different == 1);
  CHECK_FALSE(count.largest);
  CHECK_THROWS_WITH(compare(a, b, "odd"), ContainsSubstring("U16") && ContainsSubstring("F32"));
  CHECK(compare(a, b, "empty").elements == 0);
}

TEST_CASE("a folder is listed with its checkpoints, the tracked one and errors", "[checkpoint]") {
  const scratch_folder dir;
  CHECK_THROWS_WITH(list_checkpoints(dir.path()), ContainsSubstring("has no checkpoint"));
  CHECK_THROWS_WITH(list_checkpoints(dir / "gone"), ContainsSubstring("there is no folder"));
  const auto own = R"({"extension":"own"})";  // an extension with unknown parameters
  for (const int iteration : {1, 2, 3})
    save(dir.path(), iteration, 64, own);
  write_text(dir / tracker, "2\n");
  fs::remove(dir / "iter_0000001/manifest.json");
  fs::remove(dir / "iter_0000003/model-00001-of-00001.safetensors");
  const auto all = list_checkpoints(dir.path());
  REQUIRE(all.size() == 3);
  CHECK(all[0].iteration == 1);
  CHECK_THAT(all[0].wrong, ContainsSubstring("manifest.json"));
  CHECK(all[1].tracked);
  CHECK(all[1].wrong.empty());
  CHECK(all[1].manifest->consumed_samples == 8);
  CHECK(all[1].bytes > 3 * 64 * sizeof(float));
  CHECK_FALSE(all[2].tracked);
  CHECK_THAT(all[2].wrong, ContainsSubstring("No such file"));
  CHECK(named_checkpoint(dir.path()) == dir / "iter_0000002");
  CHECK(named_checkpoint(dir / "iter_0000003/") == dir / "iter_0000003");
  const auto one = list_checkpoints(dir / "iter_0000002");
  REQUIRE(one.size() == 1);
  CHECK(one[0].tracked);
  write_text(dir / tracker, "nonsense\n");
  CHECK(named_checkpoint(dir.path()) == dir / "iter_0000003");
  save(dir.path(), 4);
  CHECK_THAT(list_checkpoints(dir / "iter_0000004")[0].wrong,
             ContainsSubstring("but shards with 64"));
}
