// Rates of the operations of the cuda backend, relative to the device's own rates.
//
//   bench_gpu [--smoke] [--ceilings] [--model gpt2|1.3b|llama|flat] [--only TEXT] [--json FILE]
//   [--device N]
//
// Measures the ceilings first: the bandwidth of a copy within the device (bytes read plus written)
// and the rate of a bf16 product of 8192. --ceilings stops there. Operations bound by memory are
// relative to the first, products and attention to the second. Inputs are random, from several sets
// that exceed the last cache. A time is the median of groups between two marks in the queue.
// TROUPE_ATTENTION selects the attention: own, scalar, cudnn, or cudnn,own.
//
// Exit code 1: an operation failed or has no measurement. 2: no device.

#include "tests/bench/gpu/cases.hpp"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

using namespace troupe::bench;

namespace {

[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(
      stderr,
      "bench_gpu: %s\nusage: bench_gpu [--smoke] [--ceilings] [--model gpt2|1.3b|llama|flat] "
      "[--only TEXT] [--json FILE] [--device N]\n",
      what.c_str());
  std::exit(2);
}

options read(int argc, char** argv) {
  options out;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == argc)
        refuse(std::string(word) + " needs a value");
      return argv[++i];
    };
    if (word == "--smoke") {
      out.smoke = true;
    } else if (word == "--ceilings") {
      out.ceilings = true;
    } else if (word == "--model") {
      out.model = value();
      if (out.model != "gpt2" && out.model != "1.3b" && out.model != "llama" && out.model != "flat")
        refuse("--model '" + out.model + "' is not one of gpt2, 1.3b, llama, flat");
    } else if (word == "--only") {
      out.only = value();
    } else if (word == "--json") {
      out.json = value();
    } else if (word == "--device") {
      const auto text = value();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.device);
      if (error != std::errc{} || end != text.data() + text.size())
        refuse("--device '" + text + "' is not a number");
    } else {
      refuse("unknown option '" + std::string(word) + "'");
    }
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = read(argc, argv);
  try {
    harness in(options);
    if (options.ceilings)
      return in.finish();
    for (const auto& m : models(options.smoke)) {
      if (!in.begin(m.name))
        continue;
      time_products(in, m);
      time_rows(in, m);
      time_experts(in, m);
      time_ends(in, m);
    }
    if (in.begin("flat"))
      time_flat(in, options.smoke ? 12 * 24 : 288 << 19);
    return in.finish();
  } catch (const troupe::kernels::backend_missing& e) {
    std::fprintf(stderr, "bench_gpu: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_gpu: %s\n", e.what());
    return 1;
  }
}
