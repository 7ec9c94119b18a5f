// Fuzzes manifest.json of a checkpoint. Corrects its hash, as an attacker can.

#include "runtime/checkpoint/manifest.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/job/scheduler_values.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/runtime/checkpoint/saved.hpp"
#include "tests/support/families.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

constexpr std::size_t seal_digits = 64, after_seal = 4;

std::string sealed(std::string text) {
  if (text.size() < seal_digits + after_seal)
    return text;
  const auto at = text.size() - seal_digits - after_seal;
  text.replace(at, seal_digits, seal_digits, '0');
  sha256 hash;
  hash.add(text.data(), text.size());
  return text.replace(at, seal_digits, hash.hex());
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  checkpoint_manifest x;
  x.iteration = 7;
  x.model = tiny_model();
  x.identity = R"({"seed":1234,"optimizer":{"moments_from":3}})";
  x.layout = R"({"tensor":2})";
  const std::string hash(32, 'a'), file_hash(64, 'b');
  x.shards = {{"model-00001-of-00002.safetensors",
               80,
               file_hash,
               {{"a", {4, 2}, {{0, 0}, {2, 2}}, {stored_type::f32, hash}}}},
              {"model-00002-of-00002.safetensors",
               90,
               file_hash,
               {{"a", {4, 2}, {{2, 0}, {2, 2}}, {stored_type::f32, hash}},
                {"b", {}, {}, {stored_type::i64, hash}}}}};
  std::vector<std::string> out{to_json(x)};
  for (const auto* family : test_families()) {
    x.model = family->smallest(2);
    out.push_back(to_json(x));
  }
  return out;
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"../",
          "\"/etc/",
          "\"file\": ",
          "\"first\": [",
          "\"extents\": [",
          "1099511627776",
          "-1",
          "1e3",
          "null",
          "{}",
          "[]",
          "\"format_version\": 1",
          "\"tensors\": {",
          "\\u0000",
          "[0",
          "\"dtype\": \"F16\"",
          "\"learning_rate\": {"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  test_families();
  const auto text = sealed(std::string(fuzz::text_of(data, size)));
  fuzz::accepted([&] {
    const auto found = manifest_from_json(text, "the manifest");
    for (const auto& shard : found.shards)
      fuzz::require(shard.file.find('/') == std::string::npos && !shard.file.starts_with('.'),
                    "a shard lies beside its manifest");
    fuzz::require(manifest_from_json(to_json(found), "again") == found,
                  "a manifest survives a round trip");
    scheduler_values_in(found.identity, "the manifest");
  });
  return 0;
}
