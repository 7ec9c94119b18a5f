// `troupe checkpoint export` and `import`: convert to and from a folder of Hugging Face's
// transformers, or a GGUF file.

#include "actors/command/checkpoint_hub.hpp"

#include "actors/command/hub_models.hpp"
#include "actors/command/print.hpp"
#include "actors/command/tokenizer_flags.hpp"
#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/gguf_model.hpp"
#include "runtime/checkpoint/hub_export.hpp"
#include "runtime/checkpoint/initial_parameters.hpp"
#include "runtime/checkpoint/listing.hpp"
#include "runtime/checkpoint/own_parameters.hpp"
#include "runtime/checkpoint/same_extension.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/json_bytes.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/tokenizer/description.hpp"
#include "runtime/tokenizer/null_tokenizer.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;

struct export_flags {
  std::vector<std::string> folders;
  fs::path hub, gguf, tokenizer;
  std::string type = "float32";
  double shard_gigabytes = 5;
  bool body = false;
};

struct import_flags {
  fs::path hub, gguf, save, tokenizer;
};

/// The token that begins a text after a given one. Empty: the model reads no given text, or it was
/// trained on made-up data with a tokenizer that lacks such a token.
std::optional<std::int32_t> decoder_start_of(const runtime::model_description& model,
                                             const runtime::tokenizer& text) {
  try {
    if (const auto given = model.family().text_before(model, text))
      return given->first.front();
  } catch (const runtime::input_error&) {
  }
  return {};
}

void require_one(const fs::path& hub, const fs::path& gguf, const char* folder) {
  if (hub.empty() && gguf.empty())
    throw usage_error("--hf DIR is missing: {}; or give --gguf FILE", folder);
  if (!hub.empty() && !gguf.empty())
    throw usage_error("--hf and --gguf exclude each other: give one");
}

/// The type of a GGUF file; nothing for a name that is none.
std::optional<runtime::block_type> block_type_of(const std::string& name) {
  using runtime::block_type;
  for (const auto& [known, type] : {std::pair("float32", block_type::f32),
                                    std::pair("float16", block_type::f16),
                                    std::pair("bfloat16", block_type::bf16),
                                    std::pair("q8_0", block_type::q8_0),
                                    std::pair("q4_0", block_type::q4_0),
                                    std::pair("q4_k", block_type::q4_k)})
    if (name == known)
      return type;
  return {};
}

/// Fills in special tokens and the tokenizer files, if the checkpoint has a tokenizer.
void find_tokenizer(const runtime::checkpoint_reader& from,
                    const export_flags& flags,
                    runtime::hub_export& what) {
  const auto identity = runtime::parse_json(
      from.manifest().identity, fmt::format("the identity in '{}'", from.folder().string()));
  const auto found = identity.find("tokenizer");
  if (found == identity.end())
    return;
  const auto description = runtime::json_text(*found);
  const auto run = fs::absolute(from.folder()).lexically_normal().parent_path();
  tokenizer_flags given;
  given.folder = flags.tokenizer;
  const auto choice
      = flags.tokenizer.empty() ? runtime::described_choice(description, run) : choice_of(given);
  const auto text = runtime::make_tokenizer(choice);
  runtime::require_described(*text, description);
  if (text->names_end_of_document())
    what.end_of_document = text->end_of_document();
  what.decoder_start = decoder_start_of(what.model, *text);
  if (runtime::family_of(choice.type) == runtime::tokenizer_family::gpt2) {
    what.vocab_file = choice.vocab_file;
    what.merge_file = choice.merge_file;
  }
  const bool two_files = !what.vocab_file.empty();  // the export writes these in another form
  for (const auto& file : runtime::tokenizer_files(choice))
    if (!two_files || !file.decides)
      what.tokenizer_files.emplace_back(file.path, file.name);
  // Only training makes the model end documents with that token.
  if (from.manifest().iteration > 0 && choice.type != runtime::null_tokenizer::type_name)
    what.added_end = what.end_of_document;
}

int export_to_hub(const export_flags& flags) {
  if (flags.folders.size() != 1)
    throw usage_error("name one checkpoint, or the --save folder of a run; {} are named",
                      flags.folders.size());
  require_one(flags.hub, flags.gguf, "the output folder");
  const auto block = block_type_of(flags.type).value();
  if (!flags.hub.empty() && flags.type.starts_with('q'))
    throw usage_error("--dtype {} is a type of GGUF files: give --gguf FILE in place of --hf",
                      flags.type);
  if (!flags.gguf.empty() && flags.body)
    throw usage_error("--body is for --hf: a GGUF file has the whole model");
  const runtime::checkpoint_reader from(runtime::named_checkpoint(flags.folders.front()));
  runtime::require_extension(from.manifest(), {}, from.folder());
  runtime::require_parameters(from);
  runtime::hub_export what;
  what.model = from.manifest().model;
  what.type = flags.type == "bfloat16"  ? runtime::stored_type::bf16
              : flags.type == "float16" ? runtime::stored_type::f16
                                        : runtime::stored_type::f32;
  what.parts = flags.body ? runtime::hub_parts::body : runtime::hub_parts::all;
  what.shard_bytes = std::uint64_t(flags.shard_gigabytes * 1e9);
  what.origin
      = runtime::kept_hub_origin(fs::absolute(from.folder()).lexically_normal().parent_path());
  find_tokenizer(from, flags, what);
  const bool one_file = !flags.gguf.empty();
  const auto bytes = one_file ? runtime::gguf_model_bytes(what, block) : runtime::hub_bytes(what);
  {
    runtime::progress_bar bar("exporting", bytes, "B");
    const auto read = [&](const std::string& name, const runtime::box& part, std::span<float> to) {
      from.read(name, part, to);
    };
    const auto advance = [&](std::uint64_t done) { bar.advance_to(done); };
    if (one_file)
      runtime::write_gguf_model(flags.gguf, what, block, read, advance);
    else
      runtime::write_hub_model(flags.hub, what, read, advance);
  }
  print_page("wrote '{}': iteration {}, {} of {}, {}\n",
             (one_file ? flags.gguf : flags.hub).string(),
             from.manifest().iteration,
             runtime::human_bytes(double(bytes)),
             flags.type,
             what.tokenizer_files.empty() && what.vocab_file.empty() ? "without a tokenizer"
                                                                     : "with its tokenizer");
  return 0;
}

/// Describes the tokenizer of --tokenizer, or else the one beside the model. Without either, the
/// null tokenizer: words are ids.
std::string tokenizer_of(const import_flags& flags, const runtime::hub_model& model) {
  const auto choice = flags.tokenizer.empty()
                          ? runtime::tokenizer_of_model(flags.hub, model.config().vocabulary())
                          : runtime::tokenizer_in(flags.tokenizer);
  return describe(choice, *make_tokenizer(choice));
}

void require_gguf(const fs::path& file) {
  if (!runtime::is_gguf_file(file))
    throw runtime::input_error(
        "--gguf '{}': there is no file that begins with GGUF; name a file of that format, or a "
        "folder of Hugging Face with --hf",
        file.string());
}

int import_from_hub(import_flags& flags) {
  require_one(flags.hub, flags.gguf, "the folder with config.json and *.safetensors");
  if (flags.save.empty())
    throw usage_error("--save DIR is missing: the folder for the checkpoint");
  if (!flags.gguf.empty())
    require_gguf(flags.gguf);
  const auto said = flags.hub.empty() ? flags.gguf : flags.hub;
  flags.hub = hub_or_local_folder("--hf", said, runtime::hub_files::model);
  if (!flags.tokenizer.empty())
    flags.tokenizer
        = hub_or_local_folder("--tokenizer", flags.tokenizer, runtime::hub_files::tokenizer);
  const auto model = runtime::read_hub_model(flags.hub);
  const runtime::initial_parameters begun(model.config());
  const auto description = tokenizer_of(flags, model);
  const nlohmann::json identity
      = {{"imported_from",
          runtime::text_or_bytes(fs::absolute(runtime::gguf_behind(flags.hub)).string())},
         {"tokenizer", runtime::json_value(description)}};
  const auto count = std::uint64_t(runtime::parameter_count(model.config()));
  const runtime::directory_lock lock(flags.save);
  runtime::require_no_checkpoints(flags.save);
  runtime::keep_tokenizer(description, flags.save);  // before the checkpoint that needs it
  runtime::keep_hub_origin(flags.hub, flags.save);
  fs::path folder;
  {
    runtime::progress_bar bar("importing", count, "parameters");
    folder = runtime::save_hub_model(
        model, flags.save, lock, runtime::json_text(identity), [&](auto done) {
          bar.advance_to(done);
        });
  }
  print_page("wrote '{}': {} parameters\n", folder.string(), count);
  const auto has = [&](std::string_view name) { return model.has(name); };
  if (const auto told = begun.told(has, said.string()); !told.empty())
    print_page("{}\n", told);
  if (identity["tokenizer"]["type"] == runtime::null_tokenizer::type_name)
    print_page(
        "'{}' has no tokenizer that Troupe reads, so texts are written as ids; if you have one, "
        "import into another folder, with --tokenizer DIR\n",
        said.string());
  return 0;
}

}  // namespace

void add_export(command_line& to) {
  auto& line = to.command("export",
                          "writes a checkpoint as a folder for transformers, or as a GGUF file.");
  const auto flags = std::make_shared<export_flags>();
  line.words("DIR",
             "A checkpoint, as DIR/iter_0000100, or the --save folder of a run, which stands for "
             "its latest checkpoint.",
             flags->folders);
  line.value("--hf",
             "DIR",
             "Output folder: gets config.json, safetensors files, and the tokenizer if it is "
             "byte-level BPE. It must not exist yet.",
             text(flags->hub));
  line.value("--gguf",
             "FILE",
             "Output file for llama.cpp and programs that stand on it, in place of --hf. It must "
             "not exist yet.",
             text(flags->gguf));
  line.toggle("--body",
              "Leaves out the heads, of pre-training or of a task: the folder of a BertModel or "
              "MegatronBertModel.",
              [flags] { flags->body = true; });
  line.value(
      {.name = "--dtype",
       .type = "NAME",
       .help
       = "Type of the weights. float32: the optimizer's, to the bit. bfloat16 or float16: "
         "rounded. With --gguf also q8_0 (8.5 bits a weight), q4_k and q4_0 (4.5 bits), for the "
         "matrices."},
      one_of(flags->type, {"float32", "bfloat16", "float16", "q8_0", "q4_k", "q4_0"}));
  line.value({.name = "--shard-size",
              .type = "GB",
              .unit = "GB",
              .help = "Largest file, in gigabytes of 1e9 bytes."},
             real(flags->shard_gigabytes, 1e-6, 1e6));
  line.value("--tokenizer",
             "DIR",
             "Folder with tokenizer.json, or vocab.json and merges.txt, if they are not beside the "
             "checkpoint.",
             text(flags->tokenizer));
  line.note(
      "Writes a GPT-2, Llama, Mistral, Mixtral, Qwen, OLMoE, DeepSeek, BERT, MegatronBERT or T5, "
      "whichever computes the same function. Refuses other models with the reason.");
  line.note("Example: troupe checkpoint export runs/a/checkpoints --hf my-model");
  line.note(
      "Example: troupe checkpoint export runs/a/checkpoints --gguf my-model.gguf --dtype q8_0");
  line.runs([flags] { return export_to_hub(*flags); });
}

void add_import(command_line& to) {
  auto& line = to.command(
      "import", "makes a checkpoint from a folder written by transformers, or a GGUF file.");
  const auto flags = std::make_shared<import_flags>();
  line.value(
      "--hf",
      "DIR",
      "Input folder: config.json and safetensors files of a GPT-2, Llama, Mistral, Mixtral, Qwen, "
      "OLMoE, DeepSeek, BERT, MegatronBERT or T5; or a model of the Hub as ORG/NAME or "
      "ORG/NAME@REVISION, which is "
      "downloaded.",
      text(flags->hub));
  line.value("--gguf",
             "FILE",
             "Input file of llama.cpp, in place of --hf: a GPT-2, Llama, Mistral, Mixtral, Qwen or "
             "OLMoE. Quantised weights become floats.",
             text(flags->gguf));
  line.value(
      "--save",
      "DIR",
      "Folder for the checkpoint, which is iteration 0 without moments; for `troupe generate "
      "--load`, `troupe eval --load`, or `troupe train FAMILY --load DIR --finetune`.",
      text(flags->save));
  line.value(
      "--tokenizer",
      "DIR",
      "Folder with tokenizer.json, or vocab.json and merges.txt, if they are not in the input "
      "folder.",
      text(flags->tokenizer));
  line.note(
      "Training can also start from the folder itself: troupe train FAMILY --load-hf DIR, which "
      "takes the shape of the model from it.");
  line.runs([flags] { return import_from_hub(*flags); });
}

}  // namespace troupe::command
