// Fuzzes a safetensors file.

#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/core/hash.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

std::string with_header(const std::string& header, std::size_t elements) {
  const std::uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + header
         + std::string(elements, '\1');
}

void read_everything(const safetensors_file& file) {
  for (const auto& x : file.tensors()) {
    hash64(file.bytes(x).data(), file.bytes(x).size());
    if (!is_readable_as_f32(x.type))
      continue;
    std::vector<float> values(std::size_t(x.extents.size()));
    file.read(x, 0, values);
  }
}

void write_again(const safetensors_file& file) {
  std::vector<shard_to_write> tensors;
  for (const auto& x : file.tensors())
    tensors.push_back(whole_tensor(x.name, x.type, x.extents, file.bytes(x).data()));
  const auto path = fuzz::folder() / "again.safetensors";
  write_safetensors(path, tensors, file.metadata());
  const safetensors_file again(path);
  fuzz::require(
      again.metadata() == file.metadata() && again.tensors().size() == file.tensors().size(),
      "a round trip keeps metadata and number of tensors");
  for (const auto& x : file.tensors()) {
    const auto* y = again.find(x.name);
    fuzz::require(
        y != nullptr && y->type == x.type && y->extents == x.extents
            && std::equal(file.bytes(x).begin(), file.bytes(x).end(), again.bytes(*y).begin()),
        "a tensor survives a round trip");
  }
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const float a[] = {1, 2, 3, 4, 5, 6};
  const std::uint16_t c[] = {0x3f80, 0xc000};
  const shard_to_write tensors[] = {whole_tensor("a", stored_type::f32, {2, 3}, a),
                                    {"a.part", {4}, {{2}, {2}}, {stored_type::f32, a}},
                                    whole_tensor("c.weight", stored_type::bf16, {2}, c),
                                    whole_tensor("empty", stored_type::f32, {0, 5}, nullptr)};
  write_safetensors(folder() / "seed", tensors, {{"format", "pt"}});
  write_safetensors(folder() / "none", {});
  return {get(folder() / "seed"),
          get(folder() / "none"),
          with_header(R"({"x":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}})", 4),
          with_header(R"({"x":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"\u00e9":)"
                      R"({"dtype":"I64","shape":[1],"data_offsets":[1,9]}})",
                      9)};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"dtype\":",
          "\"shape\":",
          "\"data_offsets\":",
          "\"__metadata__\":",
          "\"F32\"",
          "\"BF16\"",
          "\"F8_E4M3\"",
          "[0,0]",
          "[[[[",
          "\"BOOL\"",
          "\\u0000",
          "\\ud800",
          "\xff",
          "..",
          "/",
          "{\"a\":1,\"a\":1}"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::folder() / "x.safetensors";
  fuzz::put(path, fuzz::text_of(data, size));
  fuzz::accepted([&] {
    const safetensors_file file(path);
    read_everything(file);
    write_again(file);
  });
  return 0;
}
