#include "kernels/cuda/product_name.hpp"

#include <charconv>
#include <cstdio>

namespace troupe::kernels::cuda {

namespace {

constexpr std::size_t digits = 16;

const char* to_string(product_role x) {
  switch (x) {
    case product_role::forward:
      return "forward";
    case product_role::backward_input:
      return "backward_input";
    case product_role::backward_weight:
      break;
  }
  return "backward_weight";
}

const char* to_string(product_type x) {
  switch (x) {
    case product_type::f32:
      return "fp32";
    case product_type::tf32:
      return "tf32";
    case product_type::bf16:
      return "bf16";
    case product_type::f16:
      break;
  }
  return "fp16";
}

std::string epilogue_of(const product_key& key) {
  std::string out = key.biased ? "+bias" : "";
  if (key.epilogue == product_epilogue::gelu)
    out += "+gelu";
  if (key.epilogue == product_epilogue::gelu_gradient)
    out += "+gelu_gradient";
  if (key.kept)
    out += "+z";
  return out.empty() ? "" : " " + out.substr(1);
}

}  // namespace

std::string name_of(const product_key& key, const std::string& device, const std::string& library) {
  std::string out = to_string(key.role) + std::string(" ") + to_string(key.type) + epilogue_of(key);
  out += " " + std::to_string(key.R) + " x " + std::to_string(key.N) + " x "
         + std::to_string(key.K);
  out += ", aligned";
  for (const int power : key.alignment)
    out += " " + std::to_string(1 << power);
  return out + ", on " + device + " with " + library;
}

std::string text_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::string out;
  for (const std::uint64_t word : algorithm.data) {
    char text[digits + 1];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(word));
    out += text;
  }
  return out;
}

cublasLtMatmulAlgo_t algorithm_of(const product_choice& choice) {
  cublasLtMatmulAlgo_t out = {};
  const std::string& text = choice.algorithm;
  bool good = text.size() == std::size(out.data) * digits;
  for (std::size_t i = 0; good && i < std::size(out.data); ++i) {
    std::uint64_t word = 0;
    const char* const from = text.data() + i * digits;
    const auto read = std::from_chars(from, from + digits, word, 16);
    good = read.ec == std::errc() && read.ptr == from + digits;
    out.data[i] = word;
  }
  if (!good)
    throw device_failure("the algorithm given for the product '" + choice.product + "' is '" + text
                         + "': it should be " + std::to_string(std::size(out.data) * digits)
                         + " hexadecimal digits");
  return out;
}

}  // namespace troupe::kernels::cuda
