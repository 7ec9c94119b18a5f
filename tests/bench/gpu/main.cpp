// How fast the operations of the cuda backend are, beside what the device can do.
//
//   bench_gpu [--smoke] [--ceilings] [--model gpt2|1.3b|llama|flat] [--only TEXT] [--json FILE]
//   [--device N]
//
// The ceilings are measured first: the bandwidth of a copy within the device (bytes read plus bytes
// written) and the rate of a bf16 product of 8192. An operation that memory bounds is given the
// share of the first, a product or attention of the second. Inputs are random and taken in turn
// from sets beyond the last cache; a time is the median of groups between two marks in the queue.
// --ceilings measures nothing else. TROUPE_ATTENTION says whose attention it is (own, scalar,
// cudnn, or cudnn,own).
//
// Exit code 1: an operation failed or is not measured at all; 2: there is no device to measure.

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
        refuse("--model '" + out.model + "' is none of gpt2, 1.3b, llama, flat");
    } else if (word == "--only") {
      out.only = value();
    } else if (word == "--json") {
      out.json = value();
    } else if (word == "--device") {
      const auto text = value();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.device);
      if (error != std::errc{} || end != text.data() + text.size())
        refuse("--device '" + text + "' is no number");
    } else {
      refuse("'" + std::string(word) + "' is no option");
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
