#include "runtime/checkpoint/gguf.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/places.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;

namespace {

std::vector<std::byte> bytes_of(const std::string& hexadecimal) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i + 1 < hexadecimal.size(); i += 2)
    out.push_back(std::byte(std::stoi(hexadecimal.substr(i, 2), nullptr, 16)));
  return out;
}

std::vector<float> floats_of(const std::string& hexadecimal) {
  const auto bytes = bytes_of(hexadecimal);
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

block_type type_named(const std::string& name) {
  for (std::uint32_t i = 0; i < 40; ++i)
    if (const auto* const x = find_block_format(i); x != nullptr && x->name == name)
      return x->type;
  throw std::runtime_error("no type " + name);
}

std::vector<float> random_floats(std::size_t size) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.01F, 0.1F);
  std::vector<float> out(size);
  for (auto& x : out)
    x = normal(random);
  return out;
}

gguf_value of(gguf_type type, nlohmann::json value) {
  return {.type = type, .value = std::move(value)};
}

gguf_metadata all_types() {
  return {{"general.architecture", of(gguf_type::string, "llama")},
          {"a.u8", of(gguf_type::u8, 255U)},
          {"a.i8", of(gguf_type::i8, -128)},
          {"a.u16", of(gguf_type::u16, 65535U)},
          {"a.i16", of(gguf_type::i16, -32768)},
          {"a.u32", of(gguf_type::u32, 4294967295U)},
          {"a.i32", of(gguf_type::i32, -5)},
          {"a.u64", of(gguf_type::u64, 18446744073709551615U)},
          {"a.i64", of(gguf_type::i64, -9000000000)},
          {"a.f32", of(gguf_type::f32, 0.5)},
          {"a.f64", of(gguf_type::f64, 1e300)},
          {"a.bool", of(gguf_type::boolean, true)},
          {"a.texts", {gguf_type::array, gguf_type::string, {"a", "\u00e9", ""}}},
          {"a.none", {gguf_type::array, gguf_type::f32, nlohmann::json::array()}}};
}

/// The bytes of a file with metadata of all types and two tensors.
std::string small_file(const scratch_folder& folder) {
  gguf_writer out(folder / "small.gguf",
                  all_types(),
                  {{.name = "m", .type = block_type::q8_0, .extents = {3, 32}},
                   {.name = "v", .type = block_type::f32, .extents = {5}}});
  const auto values = random_floats(101);
  out.add(std::span(values).first(32));
  out.add(std::span(values).subspan(32, 64));
  out.add(std::span(values).subspan(96));
  out.commit();
  return read_text(folder / "small.gguf");
}

/// The error of the reader; empty if it accepts these bytes.
std::string refusal(const scratch_folder& folder, const std::string& bytes) {
  // Without fsync: there are thousands of files.
  std::ofstream(folder / "x.gguf", std::ios::binary) << bytes;
  try {
    const gguf_file file(folder / "x.gguf");
    for (const auto& x : file.tensors()) {
      std::vector<float> values(std::size_t(x.extents.size()));
      file.read(x, 0, values);
    }
    return "";
  } catch (const input_error& failure) {
    return failure.what();
  }
}

template <class T>
std::string with(std::string bytes, std::size_t at, T x) {
  std::memcpy(bytes.data() + at, &x, sizeof x);
  return bytes;
}

}  // namespace

TEST_CASE("blocks stand for the numbers that the package gguf reads from them", "[gguf]") {
  const auto golden = parse_json(
      read_text(troupe::tests::source_dir() + "/tests/golden/gguf/blocks.json"), "blocks.json");
  REQUIRE(golden.at("cases").size() == 7);
  for (const auto& x : golden.at("cases")) {
    const auto type = type_named(x.at("type").get<std::string>());
    INFO(x.at("type"));
    const auto blocks = bytes_of(x.at("blocks").get<std::string>());
    const auto expected = floats_of(x.at("read").get<std::string>());
    std::vector<float> read(expected.size());
    REQUIRE(blocks.size() == gguf_bytes(type, {std::int64_t(read.size())}));
    dequantise(type, blocks.data(), read);
    CHECK(read == expected);
    if (x.at("values").is_null())
      continue;
    std::vector<std::byte> written(blocks.size());
    quantise(type, floats_of(x.at("values").get<std::string>()), written.data(), "values");
    CHECK(written == blocks);
  }
}

TEST_CASE("Q4_K is nearer to the numbers than Q4_0, and constants keep their value", "[gguf]") {
  const auto values = random_floats(4096);
  const auto error_of = [&](block_type type) {
    std::vector<std::byte> blocks(gguf_bytes(type, {4096}));
    quantise(type, values, blocks.data(), "values");
    std::vector<float> read(values.size());
    dequantise(type, blocks.data(), read);
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      sum += std::pow(double(read[i]) - double(values[i]), 2);
    return std::sqrt(sum / 4096);
  };
  // The deviation of the numbers is 0.1; sixteen levels over four deviations have steps of 0.027.
  CHECK(error_of(block_type::q4_k) < 0.0085);
  CHECK(error_of(block_type::q4_k) < 0.95 * error_of(block_type::q4_0));
  CHECK(error_of(block_type::q8_0) < 0.0008);
  for (const float constant : {0.0F, 1e-42F, 0.25F, -0.25F}) {
    const std::vector<float> same(256, constant);
    std::vector<std::byte> block(272);
    std::vector<float> read(256);
    for (const auto type : {block_type::q8_0, block_type::q4_0, block_type::q4_k}) {
      quantise(type, same, block.data(), "same");
      dequantise(type, block.data(), read);
      for (const auto x : read)
        REQUIRE(std::abs(x - constant) <= 0.0002F);  // of the factor in 16 bits
    }
  }
}

TEST_CASE("numbers beyond a type are refused with the tensor's name", "[gguf]") {
  std::vector<float> values(256, 1);
  std::vector<std::byte> out(1024);
  values[3] = 1e30F;
  for (const auto type : {block_type::f16, block_type::q8_0, block_type::q4_0, block_type::q4_k})
    CHECK_THROWS_WITH(quantise(type, values, out.data(), "tensor 'a'"),
                      ContainsSubstring("tensor 'a' has"));
  values[3] = 3e38F;
  values[4] = -3e38F;
  CHECK_THROWS_WITH(quantise(block_type::q4_k, values, out.data(), "tensor 'a'"),
                    ContainsSubstring("choose the type bfloat16 or float32"));
  values[3] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_WITH(quantise(block_type::bf16, values, out.data(), "tensor 'a'"),
                    ContainsSubstring("only the type float32 can store it"));
}

TEST_CASE("a file keeps metadata of all types, extents and elements", "[gguf]") {
  const scratch_folder folder;
  const auto bytes = small_file(folder);
  CHECK(small_file(folder) == bytes);
  const gguf_file file(folder / "small.gguf");
  CHECK(file.metadata() == all_types());
  REQUIRE(file.tensors().size() == 2);
  const auto* const m = file.find_tensor("m");
  REQUIRE(m != nullptr);
  CHECK(m->extents == shape{3, 32});
  CHECK(m->offset % 32 == 0);
  CHECK(file.find_tensor("v")->offset % 32 == 0);
  CHECK(file.find("a.i16")->get<int>() == -32768);
  CHECK(file.find("a.missing") == nullptr);
  const auto values = random_floats(101);
  std::vector<float> v(5), all(96), some(40);
  file.read(*file.find_tensor("v"), 0, v);
  CHECK(std::equal(v.begin(), v.end(), values.begin() + 96));
  file.read(*m, 0, all);
  for (std::size_t i = 0; i < 96; ++i)
    REQUIRE(std::abs(all[i] - values[i]) < 0.002F);
  file.read(*m, 30, some);  // begins and ends inside blocks
  CHECK(std::equal(some.begin(), some.end(), all.begin() + 30));
}

TEST_CASE("misuse of blocks and files is a broken promise", "[gguf]") {
  const scratch_folder folder;
  std::vector<float> values(256);
  std::vector<std::byte> blocks(1024);
  CHECK_BREAKS("GGUF-1", format_of(block_type(99)));
  CHECK_BREAKS("GGUF-2", dequantise(block_type::q8_0, blocks.data(), std::span(values).first(3)));
  CHECK_BREAKS("GGUF-2", gguf_bytes(block_type::q4_k, {256, 32}));
  CHECK_BREAKS("GGUF-3", quantise(block_type::q6_k, values, blocks.data(), "x"));
  small_file(folder);
  const gguf_file file(folder / "small.gguf");
  CHECK_BREAKS("GGUF-5", file.read(*file.find_tensor("v"), 1, std::span(values).first(5)));
  const gguf_value nested{gguf_type::array, gguf_type::array, nlohmann::json::array()};
  CHECK_BREAKS("GGUF-6", gguf_writer(folder / "x.gguf", {{"a", nested}}, {}));
  gguf_writer out(folder / "x.gguf", {}, {{.name = "v", .extents = {2}}});
  CHECK_BREAKS("GGUF-4", out.commit());
}

TEST_CASE("damaged files are refused with field and offset", "[gguf]") {
  const scratch_folder folder;
  const auto bytes = small_file(folder);
  REQUIRE(refusal(folder, bytes).empty());
  CHECK_THAT(refusal(folder, "GGU"), ContainsSubstring("byte 0: the magic number needs 4 bytes"));
  CHECK_THAT(refusal(folder, "ABCD" + bytes.substr(4)), ContainsSubstring("not a GGUF file"));
  CHECK_THAT(refusal(folder, with(bytes, 4, std::uint32_t{1})), ContainsSubstring("version is 1"));
  CHECK_THAT(refusal(folder, with(bytes, 4, std::uint32_t{0x3000000})),
             ContainsSubstring("big-endian"));
  CHECK_THAT(refusal(folder, with(bytes, 8, std::uint64_t{1} << 40)),
             ContainsSubstring("byte 8: 1099511627776 tensors"));
  CHECK_THAT(refusal(folder, with(bytes, 16, ~std::uint64_t{})),
             ContainsSubstring("metadata key 16 has"));
  CHECK_THAT(refusal(folder, with(bytes, 24, ~std::uint64_t{})),
             ContainsSubstring("byte 24: metadata key 1 has 18446744073709551615 bytes"));
  const auto texts = bytes.find("a.texts") + 7 + 4 + 4;
  CHECK_THAT(refusal(folder, with(bytes, texts, std::uint64_t{1} << 60)),
             ContainsSubstring("metadata \"a.texts\""));
  const auto truth = bytes.find("a.bool") + 6 + 4;
  CHECK_THAT(refusal(folder, with(bytes, truth, '\2')), ContainsSubstring("truth value"));
  const auto v = bytes.rfind("v", bytes.find("m", texts) + 64);
  CHECK_THAT(refusal(folder, with(bytes, v + 1 + 4, std::uint64_t{1} << 62)),
             ContainsSubstring("more elements than any file can hold"));
  CHECK_THAT(refusal(folder, with(bytes, v + 1 + 12, std::uint32_t{99})),
             ContainsSubstring("type 99 of ggml, which is not read; read are F32, F16"));
  CHECK_THAT(refusal(folder, with(bytes, v + 1 + 16, std::uint64_t{8})),
             ContainsSubstring("not a multiple of the alignment 32"));
  CHECK_THAT(refusal(folder, with(bytes, v + 1 + 16, std::uint64_t{0})),
             ContainsSubstring("begin inside those of"));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    if (size < bytes.size() - 32)  // the last bytes are padding
      REQUIRE(!refusal(folder, bytes.substr(0, size)).empty());
}

TEST_CASE("arrays that a file cannot hold cost neither memory nor time", "[gguf]") {
  const scratch_folder folder;
  std::string bytes = "GGUF";
  const auto put = [&](auto x) { bytes.append(reinterpret_cast<const char*>(&x), sizeof x); };
  put(std::uint32_t{3});
  put(std::uint64_t{0});
  put(std::uint64_t{1});
  put(std::uint64_t{1});
  bytes += "k";
  put(std::uint32_t(gguf_type::array));
  put(std::uint32_t(gguf_type::u8));
  put(std::uint64_t{5'000'000});
  bytes.append(5'000'000, '\1');
  CHECK_THAT(refusal(folder, bytes), ContainsSubstring("more than 4194304 values"));
  auto deep = bytes.substr(0, 24 + 8 + 1 + 4);  // up to the type of the elements
  for (int i = 0; i < 8; ++i) {
    const std::uint32_t array = 9;
    const std::uint64_t one = 1;
    deep.append(reinterpret_cast<const char*>(&array), sizeof array);
    deep.append(reinterpret_cast<const char*>(&one), sizeof one);
  }
  CHECK_THAT(refusal(folder, deep), ContainsSubstring("arrays more than 4 deep"));
}
