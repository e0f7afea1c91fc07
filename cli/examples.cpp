// Lists the examples of each command.
#include "cli/examples.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "cli/command_tree.h"

namespace terrace::cli {

namespace {

// Examples of commands that make data and models, and use them.
std::vector<Example> examples_of_models() {
  return {
      {"data prepare",
       "terrace data prepare docs --include \"*.md\" --output data/corpus --train-tokenizer data/tokenizer.model "
       "--vocabulary 600",
       "Train a tokenizer on a folder of text and encode it"},
      {"data prepare", "terrace data prepare README.md --output data/readme --tokenizer data/tokenizer.model --json",
       "Encode with an existing tokenizer"},
      {"data prepare",
       "terrace data prepare data/crystals/selenides data/crystals/telurides --kind graphs --output data/chalcogenides "
       "--split 0.8,0.2 --split-by composition",
       "Make a dataset of crystals, with those of one formula in one part"},
      {"data inspect", "terrace data inspect data/corpus --tokenizer data/tokenizer.model",
       "Check a corpus and decode a sample of it"},
      {"train", "terrace train configs/tiny.toml", "Train with the settings of the file"},
      {"train", "terrace train configs/tiny.toml --set train.steps=220 --resume auto", "Continue for 20 more steps"},
      {"train", "terrace train configs/tiny.toml --set checkpoint.folder=runs/profile --set train.steps=30 --profile 5",
       "Show where the time of five steps goes"},
      {"evaluate", "terrace evaluate runs/tiny", "Show the loss and perplexity on the data that the run held out"},
      {"evaluate", "terrace evaluate runs/tiny --data data/corpus --json", "Evaluate on another corpus, for a script"},
      {"generate", "terrace generate runs/tiny --prompt \"The model\" --max-tokens 40", "Continue a prompt"},
      {"generate", "terrace generate runs/tiny --prompt \"A step\" --temperature 0.8 --top-p 0.95 --samples 2 --json",
       "Print two continuations as JSON"},
      {"forecast", "terrace forecast runs/navy_winds --data data/winds --start 1992-02 --output march.nc",
       "Forecast one month from the month before it"},
      {"forecast",
       "terrace forecast runs/navy_winds --data data/winds --starts 1991-01 1992-12 1mo --lead 3mo --rollout 1mo "
       "--output winds.nc",
       "Forecast three months, each from the forecast before it, from every start of two years"},
      {"score", "terrace score runs/navy_winds --split test --page winds.html",
       "Score a model on the test part, and draw maps of its first forecast"},
      {"score", "terrace score winds.nc --data data/winds --split test --lead 1mo,3mo --json --csv winds.csv",
       "Score a file of forecasts at two leads, for a script and a spreadsheet"},
      {"export", "terrace export runs/tiny --format hf --output exported/tiny",
       "Export a model for Python's transformers"},
      {"import", "terrace import exported/tiny --output imported/tiny", "Import the exported model"},
      {"generate", "terrace generate imported/tiny --prompt \"The model\" --max-tokens 20",
       "Generate with the imported model"},
  };
}

// Examples of commands that predict, compare, search, launch and follow runs.
std::vector<Example> examples_about_runs() {
  return {
      {"report", "terrace report runs/tiny", "Draw the run on the page runs/tiny/report.html"},
      {"report", "terrace report runs/tiny --text", "Draw the loss curve in the terminal and show the figures"},
      {"report", "terrace report runs/tiny --text --files", "List the run's files and their sizes too"},
      {"report", "terrace report runs/tiny --json", "Print the figures as JSON, for a script"},
      {"verify", "terrace verify configs/tiny.toml --set layout.sharding=zero3 --ranks 4",
       "Check a layout on four ranks before a long run"},
      {"rehearse",
       "terrace rehearse configs/frontier-22b.toml --machine frontier --devices 64 --set layout.tensor=2 --set "
       "layout.pipeline=4 --set layout.sharding=zero1 --micro-batches 4",
       "Run all ranks of a launch here, with a narrowed model"},
      {"plan",
       "terrace plan configs/frontier-175b.toml --machine frontier --devices 1024 --set layout.tensor=4 --set "
       "layout.pipeline=16 --set layout.sharding=zero1",
       "Predict memory and time of a large run on a supercomputer"},
      {"plan",
       "terrace plan --from-megatron \"--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
       "--micro-batch-size 4 --global-batch-size 512 --train-iters 1000 --vocab-size 50257 --bf16\" --machine "
       "dgx-a100-80gb --devices 64",
       "Plan a launch of Megatron-LM"},
      {"plan", "terrace plan configs/tiny.toml --json", "Print the prediction for a laptop as JSON"},
      {"plan",
       "terrace plan configs/frontier-22b.toml --machine frontier --devices 16 --best --set layout.pipeline=2 "
       "--limit \"tensor <= 4\" --write best.toml",
       "Write the fastest layout with two stages and tensor parallelism of at most four"},
      {"plan",
       "terrace plan configs/frontier-22b.toml --machine frontier --set layout.pipeline=8 --set layout.sharding=zero1 "
       "--scaling 16,32,64,128,256 --noise-scale 1000",
       "Find the number of devices that reaches a loss first when the batch grows with them"},
      {"simulate",
       "terrace simulate configs/frontier-175b.toml --machine frontier --devices 1024 --set layout.tensor=4 --set "
       "layout.pipeline=16 --set layout.sharding=zero1 --trace step.json --stages 0,15",
       "Write a trace of the predicted step"},
      {"search", "terrace search configs/search/175b_frontier.toml --trials 300",
       "Search for the layout of a large run with the highest rate"},
      {"search", "terrace search configs/search/175b_frontier.toml --trials 400 --best 10 --json",
       "Go on with 100 more trials and print the ten best"},
      {"explain", "terrace explain runs/175b_frontier",
       "Say which parameters matter, and draw it on the page runs/175b_frontier/explain.html"},
      {"explain", "terrace explain runs/175b_frontier --failures worst --json",
       "Count failed trials with the worst value, and print JSON"},
      {"predict", "terrace predict runs/painn --data data/molecules --output predicted.xyz --page predicted.html",
       "Predict the test molecules of prepared graphs, and draw the predictions over their labels"},
      {"predict", "terrace predict runs/five --data new.xyz --output spread.xyz --csv spread.csv",
       "Predict molecules of a file by an ensemble, with its spread"},
      {"ensemble", "terrace ensemble configs/tiny.toml --seeds 3 --output runs/three --set train.steps=20",
       "Train three models that differ in their seeds, side by side"},
      {"ensemble", "terrace ensemble configs/tiny.toml --seeds 3 --output runs/three --set train.steps=20 --json",
       "Do nothing where the members are done, and print their states as JSON"},
      {"launch",
       "terrace launch configs/frontier-22b.toml --nodes 2 --machine lumi --set layout.pipeline=8 --set "
       "layout.sharding=zero1",
       "Print the script that trains on two nodes of LUMI"},
      {"launch", "terrace launch configs/tiny.toml --nodes 1 --machine laptop --with mpirun --set train.micro_batch=4",
       "Print the command of mpirun for a machine without Slurm"},
      {"status", "terrace status runs/tiny", "Show how far a run is and whether it lives"},
      {"status", "terrace status runs/tiny runs/profile --json", "Print the states of two runs as JSON"},
      {"launch",
       "terrace launch configs/frontier-22b.toml --nodes 8 --spares 1 --machine frontier --account ABC123 --set "
       "layout.pipeline=8 --set layout.sharding=zero1 --set checkpoint.memory_every=20",
       "Print the script of a job that goes on on a spare node where one fails"},
      {"keep-node", "terrace keep-node runs/tiny < /dev/null",
       "Remove the copies that a run left in this node's memory"},
      {"calibrate", "terrace calibrate --ranks 2 --quick --output machine.toml",
       "Measure this machine for predictions of runs with two ranks"},
      {"doctor", "terrace doctor", "Check this machine before a run"},
      {"completion", "source <(terrace completion bash)", "Complete commands in this bash"},
      {"man", "terrace man > terrace.1", "Write the manual page"},
  };
}

}  // namespace

const std::vector<Example>& examples() {
  static const std::vector<Example> list = [] {
    std::vector<Example> all = examples_of_models();
    std::ranges::move(examples_about_runs(), std::back_inserter(all));
    return all;
  }();
  return list;
}

std::vector<Example> examples_of(const std::string& path) {
  std::vector<Example> found;
  std::ranges::copy_if(examples(), std::back_inserter(found), [&](const Example& e) { return e.path == path; });
  return found;
}

void show_examples(CLI::App& program) {
  for (const Command& command : commands_of(program)) {
    const std::vector<Example> own = examples_of(command.path);
    if (own.empty()) continue;
    CLI::App* app = &program;
    for (const std::string& name : CLI::detail::split(command.path, ' ')) app = app->get_subcommand(name);
    std::string text = app->get_footer();
    text += text.empty() ? "Examples:" : "\n\nExamples:";
    for (const Example& example : own) text += "\n  # " + example.about + "\n  " + example.line;
    app->footer(text);
  }
}

}  // namespace terrace::cli
