// Pages first, then the names of modules and of what is in them.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 3,
  objPrio: { 0: 1, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 10,
  term: 5,
  partialTerm: 2,
};
