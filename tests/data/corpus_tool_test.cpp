// tools/corpus: the text that it makes from Markdown, and the parts that it keeps unchanged.
#include "tests/data/test_corpus.h"
#include "tests/paths.h"

namespace terrace::data {
namespace {

constexpr const char* load_tool = R"(
import importlib.machinery, importlib.util, json, pathlib, sys
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader('corpus', sys.argv[1] + '/tools/corpus')
corpus = importlib.util.module_from_spec(importlib.util.spec_from_loader('corpus', loader))
loader.exec_module(corpus)
)";

std::string run_tool(const TemporaryFolder& folder, const std::string& program) {
  return run_python(folder, std::string(load_tool) + program, {tests::source_dir().string(), folder.path().string()});
}

TEST(CorpusTool, MarkdownBecomesProse) {
  const TemporaryFolder folder;
  const std::string output = run_tool(folder, R"(
print(corpus.clean('''## A.1 What is
it?

He wrote _"policy-
making"_ in the **Book** , see [section B](secB.md). [Proudhon, **What is** , p. 264] A
list [or two] .

> _"Quoted
> words."_ [ **Op. Cit.** , pp. 16]

* [Next](next.md)

* * *
'''), end='')
)");
  EXPECT_EQ(output,
            "A.1 What is it?\n\n"
            "He wrote \"policy-making\" in the Book, see section B. A list [or two].\n\n"
            "\"Quoted words.\"\n");
}

TEST(CorpusTool, MakesACorpusOnceAndLeavesOtherFoldersAlone) {
  const TemporaryFolder folder;
  folder.write("foreign/file", "mine");
  const std::string output = run_tool(folder, R"(
root = pathlib.Path(sys.argv[2])
try:
  corpus.make(root / 'foreign')
except corpus.CorpusError as error:
  print('was not made by this tool' in str(error), (root / 'foreign/file').read_text())

def fake_fetch(scratch):
  sections = scratch / 'unpacked' / corpus.FOLDER
  sections.mkdir(parents=True)
  (sections / 'secA1.md').write_text('Words of prose. ' * 1000)
  (sections / 'links.md').write_text('A list of links. ' * 1000)
  return 'fake_1.deb'

corpus.fetch = fake_fetch
corpus.LEAST_BYTES = 10_000
made = corpus.make(root / 'corpus')
print(made['files'], sorted(p.name for p in (root / 'corpus').iterdir()), corpus.is_made(root / 'corpus') == made)
corpus.FORMAT += 1
print(corpus.is_made(root / 'corpus'), corpus.make(root / 'corpus')['format'] == corpus.FORMAT)
corpus.LEAST_BYTES = 10**9
try:
  corpus.make(root / 'other')
except corpus.CorpusError as error:
  print('looks different now' in str(error))
print(sorted(p.name for p in root.iterdir() if p.name != 'program.py'))
)");
  EXPECT_EQ(output,
            "True mine\n"
            "1 ['.corpus.json', 'secA1.txt'] True\n"
            "None True\n"
            "True\n"
            "['corpus', 'foreign']\n");
}

}  // namespace
}  // namespace terrace::data
