// Fuzzes the words of a command line, one per line: parses and resolves them, but does not run the
// command.

#include "actors/command/commands.hpp"
#include "actors/command/flags.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <cstdlib>
#include <sstream>

using namespace troupe;
using namespace troupe::tests;

namespace {

std::vector<std::string> lines(std::string_view all) {
  std::istringstream in{std::string(all)};
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);)
    out.push_back(line);
  return out;
}

const std::string training
    = "train\ngpt\n--num-layers\n2\n--hidden-size\n64\n--num-attention-heads\n4\n--seq-length\n32\n"
      "--max-position-embeddings\n32\n--micro-batch-size\n2\n--global-batch-size\n4\n--train-"
      "iters\n10\n"
      "--lr\n1e-3\n--mock-data\n--tokenizer-type\nNullTokenizer\n--vocab-size\n60\n";

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {training,
          training + "--world-size\n4\n--tensor-model-parallel-size\n2\n--pipeline-model-parallel-size\n2\n--bf16\n",
          training + "--split\n90,5,5\n--lr-decay-style\ncosine\n--lr-warmup-fraction\n0.1\n--clip-grad\n0.5\n",
          "tokenizer\ntrain\n--input\na\nb\n--vocab-size\n300\n--output\nc\n",
          "generate\n--load\nx\n--prompt\nOnce\n--temperature\n0.5\n",
          "layout\n--world-size\n8\n"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\n--help\n",
          "\n--rampup-batch-size\n2\n2\n10\n",
          "\n--seed\n",
          "=",
          "\n--pipeline-model-parallel-layout\nEt|tL\n",
          "\n--use-distributed-optimizer\n",
          "\n--recompute-granularity\nfull\n",
          "\nnan\n",
          "\ninf\n",
          "\n-1\n",
          "\n9223372036854775807\n",
          "\n1e400\n",
          "\n--train-samples\n1\n",
          "\n--window-size\n3,0\n",
          "\n--plant-fault\nx@1\n",
          "\n--position-embedding-type\nrope\n",
          "\n--swiglu\n",
          "\n--\n",
          "\n\n"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  [[maybe_unused]] static const int offline = ::setenv("HF_HUB_OFFLINE", "1", 1);  // --load-hf a/b
  const auto words = lines(fuzz::text_of(data, size));
  fuzz::accepted([&] {
    try {
      command::command_line program("troupe", "");
      command::add_commands(program);
      program.parse(words);
      if (words.size() > 2 && words[0] == "train")
        command::training_job_from({words.begin() + 2, words.end()});
    } catch (const command::usage_error& refusal) {
      throw runtime::input_error("{}", refusal.what());
    }
  });
  return 0;
}
